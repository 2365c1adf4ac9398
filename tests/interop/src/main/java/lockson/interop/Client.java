/* One Redisson instance and the lock objects made from it. */
package lockson.interop;

import java.lang.reflect.Method;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

final class Client {
    private final RedissonClient redisson;
    private final Map<String, Handle> handles = new ConcurrentHashMap<>();
    private volatile boolean connected;

    /** A lock and what it consists of: its members for multi and red, itself otherwise. */
    record Handle(RLock lock, List<Member> members) {}

    record Member(String clientId, RLock lock) {}

    Client(Settings settings) {
        redisson = Redisson.create(settings.toConfig());
    }

    String id() {
        return redisson.getId();
    }

    void shutdown() {
        redisson.shutdown();
    }

    /** Connects, if nothing has yet: interrupted in its first connect, a lazy Redisson 3 never works again. */
    void connect() {
        if (!connected) {
            redisson.getLock("lockson:connect").isLocked();
            hasConnected();
        }
    }

    void hasConnected() {
        connected = true;
    }

    /** Always the same object for the same type and name, as an application would keep it. */
    Handle handle(Peer peer, String type, String name) throws Exception {
        String key = type + " " + name;
        Handle known = handles.get(key);
        if (known != null) {
            return known;
        }
        Handle made = make(peer, type, name);
        Handle other = handles.putIfAbsent(key, made);
        return other == null ? made : other;
    }

    private Handle make(Peer peer, String type, String name) throws Exception {
        if (type.equals("multi") || type.equals("red")) {
            return join(peer, type, name);
        }
        RLock lock = switch (type) {
            case "lock" -> redisson.getLock(name);
            case "fair" -> redisson.getFairLock(name);
            case "read" -> redisson.getReadWriteLock(name).readLock();
            case "write" -> redisson.getReadWriteLock(name).writeLock();
            case "spin" -> redisson.getSpinLock(name);
            case "fenced" -> fenced(name);
            default -> throw Refusal.unsupported("no type " + type);
        };
        return new Handle(lock, List.of(new Member(id(), lock)));
    }

    @SuppressWarnings("deprecation")
    private Handle join(Peer peer, String type, String names) throws Exception {
        List<Member> members = new ArrayList<>();
        for (String member : names.split(",", -1)) {
            int slash = member.indexOf('/');
            Client owner = slash < 0 ? this : peer.client(member.substring(0, slash));
            String name = member.substring(slash + 1);
            if (name.isEmpty()) {
                throw Refusal.usage("a member without a name: " + names);
            }
            members.addAll(owner.handle(peer, "lock", name).members());
        }
        RLock[] locks = members.stream().map(Member::lock).toArray(RLock[]::new);
        RLock joined = type.equals("multi") ? redisson.getMultiLock(locks) : redisson.getRedLock(locks);
        return new Handle(joined, List.copyOf(members));
    }

    private RLock fenced(String name) throws ReflectiveOperationException, Refusal {
        Method factory;
        try {
            factory = RedissonClient.class.getMethod("getFencedLock", String.class);
        } catch (NoSuchMethodException e) {
            throw Refusal.unsupported("this Redisson has no fenced lock");
        }
        return (RLock) factory.invoke(redisson, name);
    }

    /** What a client is made with. */
    record Settings(
            String address, String user, String password, int database, long watchdog, Map<String, Integer> options) {
        private static final Pattern URL =
                Pattern.compile("(rediss?://)(?:([^/]*)@)?(\\[[^]]+]|[^:/?@]+)(?::(\\d{1,5}))?(?:/(\\d{0,5}))?");

        static Settings parse(String url, String watchdog, List<String> words) throws Refusal {
            Matcher parts = URL.matcher(url);
            if (!parts.matches()) {
                throw Refusal.config("not a redis:// URL: " + url);
            }
            long watchdogTime = LockCall.number(watchdog);
            if (watchdogTime < 1) {
                throw Refusal.config("a watchdog timeout is a positive number of milliseconds");
            }
            // Redisson itself reads no database from the address, and not the same credentials in every version.
            String[] credentials = parts.group(2) == null ? new String[0] : parts.group(2).split(":", 2);
            return new Settings(
                    parts.group(1) + parts.group(3) + ":" + (parts.group(4) == null ? "6379" : parts.group(4)),
                    credentials.length > 0 ? decoded(credentials[0]) : null,
                    credentials.length > 1 ? decoded(credentials[1]) : null,
                    parts.group(5) == null || parts.group(5).isEmpty() ? 0 : Integer.parseInt(parts.group(5)),
                    watchdogTime,
                    options(words));
        }

        Config toConfig() {
            Config config = new Config();
            config.setLockWatchdogTimeout(watchdog);
            setIfPresent(config, "setLazyInitialization", boolean.class, true);
            if (options.containsKey("fairWait")) {
                setIfPresent(config, "setFairLockWaitTimeout", long.class, options.get("fairWait").longValue());
            }
            if (options.containsKey("batch")) {
                setIfPresent(config, "setLockWatchdogBatchSize", int.class, options.get("batch"));
            }
            SingleServerConfig server = config.useSingleServer()
                    .setAddress(address)
                    .setDatabase(database)
                    .setConnectionMinimumIdleSize(1)
                    .setConnectionPoolSize(options.getOrDefault("pool", 16))
                    .setSubscriptionConnectionMinimumIdleSize(1);
            if (options.containsKey("timeout")) {
                server.setTimeout(options.get("timeout"));
            }
            setCredentials(server);
            return config;
        }

        @SuppressWarnings("deprecation")
        private void setCredentials(SingleServerConfig server) {
            if (user != null) {
                server.setUsername(user);
            }
            if (password != null) {
                server.setPassword(password);
            }
        }

        private static Map<String, Integer> options(List<String> words) throws Refusal {
            Map<String, Integer> options = new HashMap<>();
            for (String word : words) {
                String[] parts = word.split("=", 2);
                if (parts.length < 2) {
                    throw Refusal.usage("not key=value: " + word);
                }
                if (List.of("fairWait", "batch", "timeout", "pool").contains(parts[0])) {
                    long value = LockCall.number(parts[1]);
                    if (value < 1 || value > Integer.MAX_VALUE) {
                        throw Refusal.config(word + " is out of range");
                    }
                    options.put(parts[0], (int) value);
                }
            }
            return options;
        }

        private static String decoded(String text) throws Refusal {
            if (text.isEmpty()) {
                return null;
            }
            try {
                // URLDecoder is for forms, where a plus is a space.
                return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
            } catch (IllegalArgumentException e) {
                throw Refusal.config("bad escape in the credentials of the URL");
            }
        }

        // By reflection: a setting that this version of Redisson lacks must not break the build against it.
        private static void setIfPresent(Config config, String setter, Class<?> type, Object value) {
            try {
                Config.class.getMethod(setter, type).invoke(config, value);
            } catch (NoSuchMethodException e) {
                System.err.println("this Redisson has no " + setter);
            } catch (ReflectiveOperationException e) {
                throw new IllegalArgumentException(setter + "(" + value + ")", e);
            }
        }
    }
}
