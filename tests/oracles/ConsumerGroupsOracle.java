import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;
import org.apache.kafka.tools.consumer.group.ConsumerGroupCommand;

/**
 * Kafka's own kafka-consumer-groups.sh. Each line that it reads has the arguments of a call, separated by tabs. It
 * writes one line for each: all that the tool has printed, with tabs in place of line ends.
 */
public class ConsumerGroupsOracle {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> {
            throw new IllegalStateException("exit " + code + " " + message);
        });
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream said = new ByteArrayOutputStream();
            System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
            try {
                ConsumerGroupCommand.main(line.split("\t", -1));
            } catch (IllegalStateException end) {
                System.out.println(end.getMessage());
            }
            out.println(said.toString(StandardCharsets.UTF_8).strip().replace("\n", "\t"));
            out.flush();
        }
        System.exit(0);
    }
}
