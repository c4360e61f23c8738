package org.apache.hadoop.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, but that a file's mode is set by a system call: without libhadoop its
 * own starts a process, chmod, for each file that it makes. As chmod has it, a folder keeps the group
 * that it gives to what is made in it (setgid), which Hadoop's modes know nothing of.
 */
public class SparkReplFileSystem extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission mode) throws IOException {
        java.nio.file.Path file = pathToFile(path).toPath();
        LinkOption[] options = new LinkOption[0];
        int bits = mode.toShort();
        if (Files.isDirectory(file, options)) {
            bits |= ((Integer) Files.getAttribute(file, "unix:mode", options)).intValue() & 06000;
        }
        Files.setAttribute(file, "unix:mode", Integer.valueOf(bits), options);
    }
}
