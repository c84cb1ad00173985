import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Kafka's own bytes for messages given as JSON. Reads one {"name", "version", "data"} a line, where name is that of
 * the class without "JsonConverter"; writes one line of hex for each, or "!" and the reason why there is none.
 */
public class MessageOracle {
    private static final Map<String, Method> READERS = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = json.readTree(line);
            String answer;
            try {
                answer = hex(asked.get("name").asText(), (short) asked.get("version").asInt(), asked.get("data"));
            } catch (InvocationTargetException e) {
                answer = "! " + e.getCause();
            } catch (RuntimeException e) {
                answer = "! " + e;
            }
            out.println(answer.replace('\n', ' '));
            out.flush();
        }
    }

    private static String hex(String name, short version, JsonNode data) throws Exception {
        Method reader = READERS.get(name);
        if (reader == null) {
            Class<?> converter = Class.forName("org.apache.kafka.common.message." + name + "JsonConverter");
            reader = converter.getMethod("read", JsonNode.class, short.class);
            READERS.put(name, reader);
        }
        Message message = (Message) reader.invoke(null, data, version);
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return HexFormat.of().formatHex(buffer.array());
    }
}
