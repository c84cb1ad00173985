import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * What Kafka's own assignors make of a group. Reads one
 * {"assignor", "partitions": {topic: count}, "members": [{"id", "instance", "topics"}]} a line, where instance may be
 * null; writes one line for each: {member id: [[topic, partition], ...]}, in the assignor's order.
 */
public class AssignorOracle {
    private static final Map<String, ConsumerPartitionAssignor> ASSIGNORS =
        Map.of("range", new RangeAssignor(), "roundrobin", new RoundRobinAssignor());

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(json.writeValueAsString(assigned(json, json.readTree(line))));
            out.flush();
        }
    }

    private static JsonNode assigned(ObjectMapper json, JsonNode asked) {
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : asked.get("members")) {
            List<String> topics = new ArrayList<>();
            member.get("topics").forEach(topic -> topics.add(topic.asText()));
            Subscription subscription = new Subscription(topics);
            JsonNode instance = member.get("instance");
            subscription.setGroupInstanceId(instance.isNull() ? Optional.empty() : Optional.of(instance.asText()));
            members.put(member.get("id").asText(), subscription);
        }
        ConsumerPartitionAssignor assignor = ASSIGNORS.get(asked.get("assignor").asText());
        Map<String, Assignment> found =
            assignor.assign(cluster(asked.get("partitions")), new GroupSubscription(members)).groupAssignment();
        ObjectNode answer = json.createObjectNode();
        found.forEach((member, assignment) -> {
            ArrayNode partitions = answer.putArray(member);
            for (TopicPartition partition : assignment.partitions()) {
                partitions.addArray().add(partition.topic()).add(partition.partition());
            }
        });
        return answer;
    }

    private static Cluster cluster(JsonNode partitions) {
        Node node = new Node(0, "localhost", 9092);
        Node[] replicas = {node};
        List<PartitionInfo> infos = new ArrayList<>();
        partitions.fields().forEachRemaining(topic -> {
            for (int number = 0; number < topic.getValue().asInt(); number++) {
                infos.add(new PartitionInfo(topic.getKey(), number, node, replicas, replicas));
            }
        });
        return new Cluster("tests", List.of(node), infos, Set.of(), Set.of());
    }
}
