package io.delta.storage;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.s3a.S3AFileSystem;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Request;
import software.amazon.awssdk.services.s3.model.ListObjectsV2Response;
import software.amazon.awssdk.services.s3.model.S3Object;

/**
 * Delta's log store of S3, but that a log is listed from the version on that was asked for: its own
 * lists the whole log, a request for each thousand objects, and leaves out then what lies before.
 *
 * What else is listed, by VACUUM, what can't be listed so, and a log of which nothing is found go to
 * Delta's own: it says what is wrong.
 *
 * Compiled by Janino, which Spark brings: no lambdas, no generic types.
 */
public class SparkReplS3LogStore extends S3SingleDriverLogStore {
    public SparkReplS3LogStore(Configuration configuration) {
        super(configuration);
    }

    public Iterator listFrom(Path path, Configuration configuration) throws IOException {
        FileSystem files = path.getFileSystem(configuration);
        if (isVersion(path) && files instanceof S3AFileSystem) {
            try {
                List statuses = listed((S3AFileSystem) files, path);
                if (!statuses.isEmpty()) {
                    return statuses.iterator();
                }
            } catch (RuntimeException refused) { // the store's answer, or none
            } catch (LinkageError another) { // release of S3A
            }
        }
        return super.listFrom(path, configuration);
    }

    private static boolean isVersion(Path path) {
        String name = path.getName();
        return path.getParent().getName().equals("_delta_log")
                && name.length() > 0
                && Character.isDigit(name.charAt(0));
    }

    private static List listed(S3AFileSystem files, Path path) throws IOException {
        S3Client client = files.getS3AInternals().getAmazonS3Client("list a log");
        Path folder = files.makeQualified(path.getParent());
        String prefix = folder.toUri().getPath().substring(1) + "/";
        String first = path.getName();
        ListObjectsV2Request.Builder request = ListObjectsV2Request.builder();
        request.bucket(files.getBucket());
        request.prefix(prefix);
        request.delimiter("/");
        request.startAfter(prefix + first.substring(0, first.length() - 1)); // which is not wanted
        request.maxKeys(Integer.valueOf(files.getConf().getInt("fs.s3a.paging.maximum", 1000)));
        List statuses = new ArrayList();
        ListObjectsV2Response page;
        do {
            page = client.listObjectsV2((ListObjectsV2Request) request.build());
            Iterator objects = page.contents().iterator();
            while (objects.hasNext()) {
                S3Object one = (S3Object) objects.next();
                String name = one.key().substring(prefix.length());
                if (name.compareTo(first) >= 0) {
                    statuses.add(status(files, new Path(folder, new Path(null, null, name)), one));
                }
            }
            request.continuationToken(page.nextContinuationToken());
        } while (Boolean.TRUE.equals(page.isTruncated()));
        return statuses;
    }

    private static FileStatus status(S3AFileSystem files, Path path, S3Object one) {
        long size = one.size().longValue();
        long at = one.lastModified().toEpochMilli();
        return new FileStatus(size, false, 1, files.getDefaultBlockSize(path), at, path);
    }
}
