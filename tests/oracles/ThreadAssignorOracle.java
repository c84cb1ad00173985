import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.I0Itec.zkclient.IZkConnection;
import org.I0Itec.zkclient.ZkClient;
import org.I0Itec.zkclient.serialize.ZkSerializer;
import org.apache.log4j.Level;
import org.apache.log4j.Logger;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/**
 * What the assignors of Scala's high-level consumer make of a group in ZooKeeper. Each line that it reads is the name
 * of the assignor, a group and its znodes, separated by tabs: path, content, path, content. It writes one line for each:
 * "topic partition thread" of all partitions, separated by tabs; or the name of the exception.
 *
 * The znodes are in memory: the classes read them through ZkClient, which takes any IZkConnection.
 */
public class ThreadAssignorOracle {
    private static final Map<String, String> NODES = new TreeMap<>();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Logger.getRootLogger().setLevel(Level.OFF);
        Object registry = registry();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", -1);
            NODES.clear();
            for (int index = 2; index < parts.length; index += 2) {
                NODES.put(parts[index], parts[index + 1]);
            }
            out.println(assigned(parts[0], parts[1], registry));
            out.flush();
        }
        System.exit(0);
    }

    /** The partitions of each member, as that member itself computes them. */
    private static String assigned(String assignor, String group, Object registry) throws Exception {
        Class<?> type = Class.forName("kafka.consumer." + (assignor.equals("range") ? "Range" : "RoundRobin") + "Assignor");
        Class<?> context = Class.forName("kafka.consumer.AssignmentContext");
        Set<String> found = new TreeSet<>();
        for (String member : children("/consumers/" + group + "/ids")) {
            try {
                Object given = context.getConstructors()[0].newInstance(group, member, true, registry);
                Object result = type.getMethod("assign", context).invoke(type.getConstructor().newInstance(), given);
                if (result instanceof kafka.utils.Pool<?, ?>) { // since 0.9: the assignment of the whole group
                    result = result.getClass().getMethod("get", Object.class).invoke(result, member);
                }
                scala.collection.Iterator<?> each = ((scala.collection.Map<?, ?>) result).iterator();
                while (each.hasNext()) {
                    scala.Tuple2<?, ?> pair = (scala.Tuple2<?, ?>) each.next();
                    kafka.common.TopicAndPartition partition = (kafka.common.TopicAndPartition) pair._1();
                    found.add(partition.topic() + " " + partition.partition() + " " + pair._2());
                }
            } catch (InvocationTargetException failure) {
                return failure.getCause().getClass().getName();
            }
        }
        return String.join("\t", found);
    }

    /** A ZkClient on the znodes in memory; since 0.9 the classes want one inside ZkUtils. */
    private static Object registry() throws Exception {
        IZkConnection connection = (IZkConnection) Proxy.newProxyInstance(
            ThreadAssignorOracle.class.getClassLoader(), new Class<?>[] {IZkConnection.class}, (proxy, method, given) -> {
                switch (method.getName()) {
                    case "connect":
                        WatchedEvent connected = new WatchedEvent(
                            Watcher.Event.EventType.None, Watcher.Event.KeeperState.SyncConnected, null);
                        new Thread(() -> ((Watcher) given[0]).process(connected)).start();
                        return null;
                    case "getServers":
                        return "memory";
                    case "getChildren":
                        return children((String) given[0]);
                    case "exists":
                        return NODES.containsKey(given[0]);
                    case "readData":
                        return content((String) given[0]);
                    default:
                        throw new UnsupportedOperationException(method.getName());
                }
            });
        ZkSerializer texts = new ZkSerializer() {
            public byte[] serialize(Object text) {
                return ((String) text).getBytes(StandardCharsets.UTF_8);
            }

            public Object deserialize(byte[] bytes) {
                return new String(bytes, StandardCharsets.UTF_8);
            }
        };
        ZkClient client = new ZkClient(connection, 10000, texts);
        try {
            Class<?> utils = Class.forName("kafka.utils.ZkUtils");
            for (java.lang.reflect.Constructor<?> constructor : utils.getConstructors()) {
                if (constructor.getParameterCount() == 3) {
                    return constructor.newInstance(client, null, false);
                }
            }
        } catch (ClassNotFoundException noSuchClass) {
            // 0.8.2 has only an object of that name
        }
        return client;
    }

    private static List<String> children(String path) throws KeeperException {
        Set<String> names = new TreeSet<>();
        for (String node : NODES.keySet()) {
            if (node.startsWith(path + "/")) {
                names.add(node.substring(path.length() + 1).split("/")[0]);
            }
        }
        if (names.isEmpty() && !NODES.containsKey(path)) {
            throw new KeeperException.NoNodeException(path);
        }
        return new ArrayList<>(names);
    }

    private static byte[] content(String path) throws KeeperException {
        String text = NODES.get(path);
        if (text == null) {
            throw new KeeperException.NoNodeException(path);
        }
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
