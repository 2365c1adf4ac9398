//! Tests of the test ground itself: a fault that does not happen, or a leak that is not seen, would make other tests lie.

use std::{
    io::{Read, Write},
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    process::Command,
    sync::mpsc,
    thread,
    time::Duration,
};

use redis::{Commands, RedisResult};

use crate::support::{
    Ground, Peer, Proxy, Server, command, containing, eventually, script, server::connect,
};

#[test]
fn a_taken_port_is_left_to_its_owner() {
    let ground = Ground::new();
    let first = ground.server();
    let second = ground.server_with(|options| options.prefer_port(first.port()));
    assert_ne!(second.port(), first.port());
    second.cli(&["SET", "here", "1"]);
    let seen: bool = first.connection().exists("here").expect("EXISTS");
    assert!(!seen, "the second server is another one");
    second.cli(&["DEL", "here"]);
}

#[test]
fn a_server_freezes_and_comes_back_with_its_data() {
    let ground = Ground::new();
    let server = ground.server_with(|options| options.aof().password("secret"));
    server.cli(&["SET", "kept", "1"]);
    let pid = server.pid();

    let mut redis = server.connection();
    redis
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("a read timeout can be set");
    server.freeze();
    let frozen: RedisResult<String> = redis::cmd("PING").query(&mut redis);
    assert!(frozen.is_err_and(|error| error.is_timeout()));
    server.thaw();
    drop(redis);

    server.freeze();
    server.restart();
    assert_ne!(server.pid(), pid);
    let kept: i32 = server.connection().get("kept").expect("GET");
    assert_eq!(kept, 1);
    server.cli(&["DEL", "kept"]);
}

#[test]
fn a_monitor_tells_scripts_from_clients() {
    let ground = Ground::new();
    let server = ground.server();
    let monitor = server.monitor();
    let mut redis = server.connection();
    let _: () = redis::cmd("EVAL")
        .arg("redis.call('INCR', KEYS[1]) redis.call('DEL', KEYS[1]) return 'OK'")
        .arg(1)
        .arg("[0 lua]")
        .query(&mut redis)
        .expect("the script runs");
    let lines = monitor.take();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(monitor.take_commands().is_empty());
    let _: () = redis.del("[0 lua]").expect("DEL");
    assert_eq!(monitor.take_commands().len(), 1);
    assert_eq!(server.script_calls(), 1);
}

#[test]
fn a_key_left_is_found_in_any_database() {
    let report = leak_report(|ground| {
        let mut redis = ground.server().connection();
        let _: () = redis::cmd("SELECT")
            .arg(3)
            .query(&mut redis)
            .expect("SELECT");
        let _: () = redis.set_ex("forgotten", 1, 60).expect("SET");
    });
    assert!(
        report.contains(r#"the key "forgotten" in db 3"#),
        "{report}"
    );

    let ground = Ground::new();
    ground.server().cli(&["SET", "meant", "1"]);
    ground.expect_keys_left();
}

#[test]
fn a_subscription_and_a_thread_left_are_found() {
    let (stop, stopped) = mpsc::channel::<()>();
    let mut subscriber = None;
    let report = leak_report(|ground| {
        ground.watch_tag("left-over");
        thread::Builder::new()
            .name("x-left-over-1".to_owned())
            .spawn(move || stopped.recv())
            .expect("a thread can be started");
        let mut redis = ground.server().connection();
        let _: redis::Value = redis::cmd("SUBSCRIBE")
            .arg("news")
            .query(&mut redis)
            .expect("SUBSCRIBE");
        subscriber = Some(redis);
    });
    assert!(report.contains(r#"the thread "x-left-over-1""#), "{report}");
    assert!(report.contains(r#"the channel "news""#), "{report}");
    assert!(report.contains("the connection id="), "{report}");
    drop(stop);

    let ground = Ground::new();
    ground.watch_tag("left-over");
}

#[test]
fn replies_are_lost_after_the_server_obeyed() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());

    proxy.swallow_replies(containing("incr"), 1);
    let mut redis = through(&proxy);
    assert!(incr(&mut redis, "a").is_err_and(|error| error.is_timeout()));
    assert_eq!(proxy.swallowed(), 1);

    // By hand: after a timeout the client library takes the next reply for the late one.
    proxy.swallow_replies(command("incr"), 1);
    let mut pipelined = TcpStream::connect(proxy.addr()).expect("the proxy accepts");
    pipelined
        .write_all(b"*2\r\n$4\r\nINCR\r\n$1\r\nb\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n")
        .expect("the proxy reads");
    let mut reply = [0; 8];
    pipelined.read_exact(&mut reply).expect("the proxy answers");
    assert_eq!((&reply, proxy.swallowed()), (b"$2\r\nhi\r\n", 2));
    drop(pipelined);

    proxy.cut_after(script("a"), 1);
    let mut redis = through(&proxy);
    let lost: RedisResult<i64> = redis::cmd("EVAL")
        .arg("return redis.call('INCR', KEYS[1])")
        .arg(1)
        .arg("a")
        .query(&mut redis);
    assert!(lost.is_err_and(|error| error.is_connection_dropped()));
    assert_eq!(proxy.cuts(), 1);

    proxy.cut_reply_at(command("mget"), 7, 1);
    let mut redis = through(&proxy);
    let torn: RedisResult<Vec<i64>> = redis.mget(&["a", "b"]);
    assert!(torn.is_err());
    assert_eq!(proxy.cuts(), 2);

    assert_eq!(value_of(&server, "a"), 2, "both requests ran");
    server.cli(&["DEL", "a", "b"]);
}

#[test]
fn requests_are_lost_before_the_server_saw_them() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());

    proxy.drop_requests(command("incr"), 1);
    let mut redis = through(&proxy);
    assert!(incr(&mut redis, "a").is_err_and(|error| error.is_timeout()));
    assert_eq!(proxy.dropped(), 1);

    proxy.cut_before(command("incr"), 1);
    let mut redis = through(&proxy);
    assert!(incr(&mut redis, "a").is_err_and(|error| error.is_connection_dropped()));
    assert_eq!(proxy.cuts(), 1);

    proxy.black_hole(true);
    let mut redis = through(&proxy);
    assert!(incr(&mut redis, "a").is_err_and(|error| error.is_timeout()));
    assert_eq!(proxy.lost(), 1);
    proxy.black_hole(false);

    proxy.refuse(true);
    assert!(incr(&mut through(&proxy), "a").is_err());
    assert_eq!(proxy.refused(), 1);
    proxy.refuse(false);

    assert_eq!(value_of(&server, "a"), 0);
    assert_eq!(proxy.accepted(), 3);
}

#[test]
fn a_held_request_arrives_after_its_client_is_gone() {
    let ground = Ground::new();
    let server = ground.server();
    let proxy = Proxy::to(server.addr());
    proxy.hold(command("incr"), 1);
    let mut redis = through(&proxy);
    assert!(incr(&mut redis, "a").is_err_and(|error| error.is_timeout()));
    drop(redis);
    assert_eq!((proxy.held(), value_of(&server, "a")), (1, 0));
    assert_eq!(proxy.release_held(), 1);
    eventually(BOUND, "the late copy runs", || value_of(&server, "a") == 1);
    eventually(BOUND, "the connection closes", || proxy.open() == 0);
    server.cli(&["DEL", "a"]);
}

#[test]
fn a_peer_is_heard_by_its_answers() {
    let ground = Ground::new();
    let mut shell = Command::new("sh");
    shell.args(["-c", ECHOING_PEER]);
    let peer = Peer::start(shell);
    let late = peer.send("late");
    assert_eq!(peer.call("hello you"), Ok("hello you".to_owned()));
    assert!(!late.is_done());
    let refusal = peer.call("refuse it").expect_err("it is refused");
    assert_eq!(
        (&*refusal.kind, &*refusal.message),
        ("Usage", "not so fast")
    );
    assert_eq!(late.wait(BOUND), Ok("at last".to_owned()));

    peer.freeze();
    let pending = peer.send("hello again");
    assert_eq!(pending.within(Duration::from_millis(50)), None);
    peer.thaw();
    assert_eq!(pending.wait(BOUND), Ok("hello again".to_owned()));
    peer.close_stdin();
    assert!(peer.wait_exit(BOUND).success());
    drop(ground);
}

fn leak_report(test: impl FnOnce(&Ground)) -> String {
    let outcome = catch_unwind(AssertUnwindSafe(|| test(&Ground::new())));
    let panic = outcome.expect_err("the ground sees that something is left");
    *panic.downcast::<String>().expect("the panic has a text")
}

/// A client that loses patience soon.
fn through(proxy: &Proxy) -> redis::Connection {
    let redis = connect(proxy.port(), None).expect("the proxy accepts");
    redis
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a read timeout can be set");
    redis
}

fn incr(redis: &mut redis::Connection, key: &str) -> RedisResult<i64> {
    redis::cmd("INCR").arg(key).query(redis)
}

fn value_of(server: &Server, key: &str) -> i64 {
    let value: Option<i64> = server.connection().get(key).expect("GET");
    value.unwrap_or(0)
}

const BOUND: Duration = Duration::from_secs(10);

const ECHOING_PEER: &str = r#"
while read -r id words; do
    case "$words" in
        late) late=$id ;;
        refuse*) echo "$id ERR Usage not so fast"; echo "$late OK at last" ;;
        *) echo "$id OK $words" ;;
    esac
done
"#;
