import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * What Kafka's own assignors (since 3.5) make of a group whose members own partitions and are in racks. Each line that
 * it reads is one of
 * {"assignor", "partitions": {topic: [[rack, ...], ...]}, "members": [{"id", "instance", "topics", "owned", "generation",
 * "rack", "data"}]}, where instance, rack and data (hex) may be null, and the answer is {member id: [[topic,
 * partition], ...]}; or
 * {"assignor", "got": [[topic, partition], ...], "generation"}, and the answer is the user data (hex, or null) that a
 * member sends after it has got these partitions.
 */
public class StickyAssignorOracle {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = json.readTree(line);
            Object answer = asked.has("got") ? userData(asked) : assigned(json, asked);
            out.println(json.writeValueAsString(answer));
            out.flush();
        }
    }

    private static ConsumerPartitionAssignor assignor(JsonNode asked) {
        return switch (asked.get("assignor").asText()) {
            case "range" -> new RangeAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }

    private static String userData(JsonNode asked) {
        ConsumerPartitionAssignor assignor = assignor(asked);
        int generation = asked.get("generation").asInt();
        if (generation >= 0) {
            assignor.onAssignment(new Assignment(partitions(asked.get("got"))),
                new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        }
        ByteBuffer data = assignor.subscriptionUserData(Set.of());
        if (data == null) {
            return null;
        }
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static ObjectNode assigned(ObjectMapper json, JsonNode asked) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            List<String> topics = new ArrayList<>();
            member.get("topics").forEach(topic -> topics.add(topic.asText()));
            JsonNode data = member.get("data");
            ByteBuffer userData = data.isNull() ? null : ByteBuffer.wrap(HexFormat.of().parseHex(data.asText()));
            Subscription subscription = new Subscription(topics, userData, partitions(member.get("owned")),
                member.get("generation").asInt(), optional(member.get("rack")));
            subscription.setGroupInstanceId(optional(member.get("instance")));
            members.put(member.get("id").asText(), subscription);
        }
        ObjectNode answer = json.createObjectNode();
        assignor(asked).assign(cluster(asked.get("partitions")), new GroupSubscription(members))
            .groupAssignment().forEach((member, assignment) -> {
                ArrayNode partitions = answer.putArray(member);
                for (TopicPartition partition : assignment.partitions()) {
                    partitions.addArray().add(partition.topic()).add(partition.partition());
                }
            });
        return answer;
    }

    private static Optional<String> optional(JsonNode text) {
        return text.isNull() ? Optional.empty() : Optional.of(text.asText());
    }

    private static List<TopicPartition> partitions(JsonNode pairs) {
        List<TopicPartition> found = new ArrayList<>();
        pairs.forEach(pair -> found.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        return found;
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            int number = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                racks.forEach(rack -> replicas.add(nodes.computeIfAbsent(rack.asText(),
                    name -> new Node(nodes.size(), "localhost", 9092, name))));
                Node[] all = replicas.toArray(new Node[0]);
                infos.add(new PartitionInfo(topic.getKey(), number++, Node.noNode(), all, all));
            }
        });
        return new Cluster("tests", List.copyOf(nodes.values()), infos, Set.of(), Set.of());
    }
}
