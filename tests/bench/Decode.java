// mysql-binlog-connector-java on the same files, for tests/bench/connector.py.
//
//     java -cp JAR:FOLDER Decode default|fastest ROUNDS FILE...
//
// A line per round: rows images, seconds, processor seconds (of the whole process, with GC and JIT).
import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.TransactionPayloadEventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer.CompatibilityMode;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedInputStream;
import java.io.FileInputStream;
import java.lang.management.ManagementFactory;

public final class Decode {
    public static void main(String[] args) throws Exception {
        OperatingSystemMXBean system =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        for (int round = 0; round < Integer.parseInt(args[1]); round++) {
            long began = System.nanoTime(), cpu = system.getProcessCpuTime(), rows = 0;
            for (int i = 2; i < args.length; i++) {
                rows += read(args[i], args[0].equals("fastest"));
            }
            System.out.printf("%d %.3f %.3f%n", rows, (System.nanoTime() - began) / 1e9,
                (system.getProcessCpuTime() - cpu) / 1e9);
        }
    }

    private static long read(String path, boolean fastest) throws Exception {
        EventDeserializer deserializer = new EventDeserializer();
        if (fastest) {
            deserializer.setCompatibilityMode(CompatibilityMode.DATE_AND_TIME_AS_LONG,
                CompatibilityMode.CHAR_AND_BINARY_AS_BYTE_ARRAY);
        }
        BufferedInputStream stream = new BufferedInputStream(new FileInputStream(path), 1 << 20);
        long rows = 0;
        try (BinaryLogFileReader reader = new BinaryLogFileReader(stream, deserializer)) {
            for (Event event = reader.readEvent(); event != null; event = reader.readEvent()) {
                rows += rows(event.getData());
            }
        }
        return rows;
    }

    private static long rows(EventData data) {
        if (data instanceof WriteRowsEventData) {
            return ((WriteRowsEventData) data).getRows().size();
        }
        if (data instanceof UpdateRowsEventData) {
            return 2L * ((UpdateRowsEventData) data).getRows().size();
        }
        if (data instanceof DeleteRowsEventData) {
            return ((DeleteRowsEventData) data).getRows().size();
        }
        long rows = 0;
        if (data instanceof TransactionPayloadEventData) {
            for (Event event : ((TransactionPayloadEventData) data).getUncompressedEvents()) {
                rows += rows(event.getData());
            }
        }
        return rows;
    }
}
