package org.apache.hadoop.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, but that a file's mode is set by a system call: without libhadoop its
 * own starts a process, chmod, for each file that it makes. A mode beyond rwx is Hadoop's to set.
 */
public class SparkReplFileSystem extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission mode) throws IOException {
        if (mode.getStickyBit()) {
            super.setPermission(path, mode);
            return;
        }
        Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(mode.toString()));
    }
}
