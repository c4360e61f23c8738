package io.delta.storage;

import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.CopyOption;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Delta's log store of local disks, but for two things.
 *
 * Listing: Hadoop's asks for the status of each file of the folder before it leaves out those that
 * nobody has asked for, and a log keeps its commits for a day. Here names are left out, and a file's
 * status is asked for when its turn comes.
 *
 * A new version: Hadoop's looks whether the file is there, and renames its own over whatever has come
 * since, with processes of their own in between. Here a hard link gives the name, which fails if
 * there is one. Files that may be overwritten are written by Delta's own.
 *
 * Compiled by Janino, which Spark brings: no lambdas, no generic types.
 */
public class SparkReplLogStore extends HDFSLogStore {
    public SparkReplLogStore(Configuration configuration) {
        super(configuration);
    }

    public Iterator listFrom(Path path, Configuration configuration) throws IOException {
        FileSystem files = path.getFileSystem(configuration);
        Path folder = path.getParent();
        File local = localFile(files, folder);
        String[] names = local == null ? null : local.list();
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

    public void write(
            Path path, Iterator<String> actions, Boolean overwrite, Configuration configuration)
            throws IOException {
        File file = localFile(path.getFileSystem(configuration), path);
        if (file == null || overwrite) {
            super.write(path, actions, overwrite, configuration);
            return;
        }
        String name = "." + path.getName() + "." + UUID.randomUUID() + ".tmp"; // as Hadoop's are
        File written = new File(file.getParentFile(), name);
        try {
            writeLines(written.toPath(), actions, configuration);
            try {
                link(file.toPath(), written.toPath());
            } catch (FileAlreadyExistsException error) {
                if (!isLinked(file.toPath(), written.toPath())) {
                    throw new FileAlreadyExistsException(path.toString());
                }
            } catch (UnsupportedOperationException error) {
                move(written.toPath(), file.toPath());
            } catch (FileSystemException error) { // a disk without hard links
                move(written.toPath(), file.toPath());
            }
        } finally {
            written.delete(); // what is not removed does not make a commit fail that is there
        }
    }

    void link(java.nio.file.Path name, java.nio.file.Path file) throws IOException {
        Files.createLink(name, file);
    }

    private static void writeLines(
            java.nio.file.Path file, Iterator<String> lines, Configuration configuration)
            throws IOException {
        OpenOption[] options = {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE};
        OutputStream out = new BufferedOutputStream(Files.newOutputStream(file, options));
        try {
            FsPermission mode = FsPermission.getFileDefault();
            mode = mode.applyUMask(FsPermission.getUMask(configuration));
            Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(mode.toString()));
            while (lines.hasNext()) {
                out.write(((String) lines.next()).getBytes(StandardCharsets.UTF_8));
                out.write('\n');
            }
        } finally {
            out.close();
        }
    }

    /**
     * Looks first and renames then: another process may come in between. Never copies, as Hadoop's
     * rename does where the system's fails: that shows a part of a version.
     */
    private static void move(java.nio.file.Path file, java.nio.file.Path name) throws IOException {
        synchronized (SparkReplLogStore.class) {
            LinkOption[] options = {LinkOption.NOFOLLOW_LINKS};
            if (!Files.exists(name, options)) {
                CopyOption[] how = {StandardCopyOption.ATOMIC_MOVE};
                Files.move(file, name, how);
            } else if (!isLinked(name, file)) {
                throw new FileAlreadyExistsException(name.toString());
            }
        }
    }

    /**
     * Whether a link was made all the same: a mount has asked twice, or lost the answer. Where files
     * have no numbers of their own no file has two names either.
     */
    private static boolean isLinked(java.nio.file.Path name, java.nio.file.Path file)
            throws IOException {
        Object names = Files.getAttribute(file, "unix:nlink", new LinkOption[0]);
        return ((Integer) names).intValue() > 1 && Files.isSameFile(name, file);
    }

    private static File localFile(FileSystem files, Path path) {
        if (files instanceof LocalFileSystem) {
            return ((LocalFileSystem) files).pathToFile(path);
        }
        if (files instanceof RawLocalFileSystem) {
            return ((RawLocalFileSystem) files).pathToFile(path);
        }
        return null;
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
