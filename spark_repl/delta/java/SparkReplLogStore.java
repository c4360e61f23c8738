package io.delta.storage;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * Delta's log store of local disks, but for its listing: Hadoop's asks for the status of each file
 * of the folder before it leaves out those that nobody has asked for, and a log keeps its commits for
 * a day. Here names are left out, and a file's status is asked for when its turn comes.
 *
 * What is written is written by Delta's own. Compiled by Janino, which Spark brings: no lambdas, no
 * generic types.
 */
public final class SparkReplLogStore extends HDFSLogStore {
    public SparkReplLogStore(Configuration configuration) {
        super(configuration);
    }

    public Iterator listFrom(Path path, Configuration configuration) throws IOException {
        FileSystem files = path.getFileSystem(configuration);
        Path folder = path.getParent();
        String[] names = null;
        if (files instanceof LocalFileSystem) {
            names = ((LocalFileSystem) files).pathToFile(folder).list();
        } else if (files instanceof RawLocalFileSystem) {
            names = ((RawLocalFileSystem) files).pathToFile(folder).list();
        }
        if (names == null) { // another file system, no folder, or one that can't be read
            return super.listFrom(path, configuration);
        }
        String first = path.getName();
        int count = 0;
        for (int i = 0; i < names.length; i++) {
            if (names[i].compareTo(first) >= 0) {
                names[count++] = names[i];
            }
        }
        Arrays.sort(names, 0, count);
        return new SparkReplStatuses(files, folder, names, count);
    }
}

/** The statuses of the first of some files, in their order, as far as the files are there. */
final class SparkReplStatuses implements Iterator {
    private final FileSystem files;
    private final Path folder;
    private final String[] names;
    private final int count;
    private int at = 0;
    private FileStatus ahead = null;

    SparkReplStatuses(FileSystem files, Path folder, String[] names, int count) {
        this.files = files;
        this.folder = folder;
        this.names = names;
        this.count = count;
    }

    public boolean hasNext() {
        while (this.ahead == null && this.at < this.count) {
            Path path = new Path(this.folder, new Path(null, null, this.names[this.at++]));
            if (this.files instanceof LocalFileSystem && ChecksumFileSystem.isChecksumFile(path)) {
                continue; // as in its own listing
            }
            try {
                this.ahead = this.files.getFileStatus(path);
            } catch (FileNotFoundException removed) { // since its name was read
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
        return this.ahead != null;
    }

    public Object next() {
        if (!this.hasNext()) {
            throw new NoSuchElementException();
        }
        FileStatus status = this.ahead;
        this.ahead = null;
        return status;
    }
}
