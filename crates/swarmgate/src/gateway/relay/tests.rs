#![allow(clippy::as_conversions, reason = "sizes in tests are small")]

use std::fs::File;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use rustix::io::{Errno, ioctl_fionread};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::*;

const LIMIT: Duration = Duration::from_secs(60);
const MIB: usize = 1024 * 1024;

/// Everything before the relay is boxed by its caller, so this is what an idle session costs in its task.
#[test]
fn the_future_is_small() {
    let size = size_of::<Relay<'_>>();
    assert!(size <= 264, "{size} bytes");
}

#[tokio::test]
async fn a_tuned_listener_hands_its_options_to_what_it_accepts() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    tune(&listener).unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();

    let socket = SockRef::from(&accepted);
    assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(60));
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(120)));
}

#[tokio::test]
async fn bytes_arrive_unchanged_both_ways_whatever_the_chunks() {
    for seed in 1..=8 {
        let Session { player, game, relay, counters } = session(Pipes::shared(), LIMIT).await;
        let up = tokio::spawn(exchange(player, (seed, 3 * MIB), (seed + 100, 5 * MIB)));
        let down = tokio::spawn(exchange(game, (seed + 100, 5 * MIB), (seed, 3 * MIB)));
        within(async { tokio::try_join!(up, down) }).await.unwrap();
        let outcome = within(relay).await.unwrap();
        assert_eq!((outcome.up, outcome.down, outcome.error), (3 * MIB as u64, 5 * MIB as u64, None));
        assert_eq!(counters.up.load(Ordering::Relaxed), outcome.up);
        assert_eq!(counters.down.load(Ordering::Relaxed), outcome.down);
    }
}

#[tokio::test]
async fn large_flows_arrive_unchanged_spliced_or_copied() {
    static SPLICING: Pipes = Pipes::new(pipes::make);
    static NO_PIPE: Pipes = Pipes::new(|| Err(Errno::MFILE.into()));
    static NO_SPLICE: Pipes = Pipes::new(|| {
        // "Invalid argument": one side of a splice must be a pipe.
        Ok((File::open("/dev/null")?.into(), File::options().write(true).open("/dev/null")?.into()))
    });
    for (pipes, size, made) in [(&SPLICING, 128 * MIB, 1), (&NO_PIPE, 16 * MIB, 0), (&NO_SPLICE, 16 * MIB, 1)]
    {
        let Session { player, game, relay, .. } = session(pipes, LIMIT).await;
        let up = tokio::spawn(exchange(player, (1, 0), (2, size)));
        let down = tokio::spawn(exchange(game, (2, size), (1, 0)));
        within(async { tokio::try_join!(up, down) }).await.unwrap();
        let outcome = within(relay).await.unwrap();
        assert_eq!((outcome.down, outcome.error), (size as u64, None));
        assert_eq!(pipes.counts(), (made, made), "idle, of all");
    }
}

#[tokio::test]
async fn six_hundred_flows_share_the_pipes() {
    static PIPES: Pipes = Pipes::new(pipes::make);
    let mut tasks = JoinSet::new();
    for seed in 0..600 {
        let Session { player, game, relay, .. } = session(&PIPES, LIMIT).await;
        tasks.spawn(exchange(player, (seed, 1000), (seed + 1000, MIB / 2)));
        tasks.spawn(exchange(game, (seed + 1000, MIB / 2), (seed, 1000)));
        tasks.spawn(async move { assert_eq!(relay.await.unwrap().error, None) });
    }
    within(tasks.join_all()).await;
    let (idle, made) = PIPES.counts();
    assert!(idle == made && (1..=64).contains(&made), "{idle} idle of {made}");
}

#[tokio::test]
async fn the_end_of_one_direction_leaves_the_other_open() {
    for first in [Side::Client, Side::Server] {
        let Session { player, game, relay, .. } = session(Pipes::shared(), LIMIT).await;
        let (mut early, mut late) = match first {
            Side::Client => (player, game),
            Side::Server => (game, player),
        };
        early.write_all(b"bye").await.unwrap();
        early.shutdown().await.unwrap();
        assert_eq!(read_to_end(&mut late).await, b"bye");

        late.write_all(b"wait, one more thing").await.unwrap();
        late.shutdown().await.unwrap();
        assert_eq!(read_to_end(&mut early).await, b"wait, one more thing");

        let outcome = within(relay).await.unwrap();
        assert_eq!((outcome.first, outcome.error), (first, None));
    }
}

#[tokio::test]
async fn a_reset_ends_the_session_after_the_last_words() {
    for first in [Side::Client, Side::Server] {
        let Session { player, game, relay, .. } = session(Pipes::shared(), LIMIT).await;
        let (mut early, mut late) = match first {
            Side::Client => (player, game),
            Side::Server => (game, player),
        };
        early.write_all(b"last words").await.unwrap();
        let mut last = [0; 10];
        within(late.read_exact(&mut last)).await.unwrap();
        SockRef::from(&early).set_linger(Some(Duration::ZERO)).unwrap();
        drop(early);

        assert_eq!(read_to_end(&mut late).await, b"");
        let outcome = within(relay).await.unwrap();
        assert_eq!((outcome.first, outcome.error), (first, Some("reset")));
    }
}

/// A server that closes on a player who is still sending resets the connection; what it said before, such
/// as the reason of a kick, must arrive.
#[tokio::test]
async fn what_a_lost_server_sent_before_still_arrives() {
    let (mut player, client) = pair().await;
    let (mut game, server) = pair().await;
    let counters = Counters::default();
    let mut relay = run(client, server, LIMIT, &counters);
    tokio::select! {
        outcome = &mut relay => panic!("{outcome:?}"),
        sent = fill(&mut game) => assert!(sent > MIB),
    }
    let queued = ioctl_fionread(&relay.server).unwrap() + counters.down.load(Ordering::Relaxed);
    assert!(queued > counters.down.load(Ordering::Relaxed));
    SockRef::from(&game).set_linger(Some(Duration::ZERO)).unwrap();
    drop(game);

    player.write_all(b"a step").await.unwrap();
    let reading = async {
        tokio::task::yield_now().await;
        read_to_end(&mut player).await.len() as u64
    };
    let (outcome, received) = within(async { tokio::join!(relay, reading) }).await;
    assert_eq!((outcome.first, outcome.error), (Side::Server, Some("reset")));
    assert!(received >= queued && received == outcome.down, "{queued} {received} {outcome:?}");
}

#[tokio::test]
async fn a_half_closed_session_lives_while_it_moves() {
    let stall = Duration::from_millis(250);
    let Session { mut player, mut game, mut relay, .. } = session(Pipes::shared(), stall).await;
    game.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut player).await, b"");

    let shut = Instant::now();
    let mut byte = [0];
    while shut.elapsed() < stall * 4 {
        player.write_all(b"x").await.unwrap();
        tokio::select! {
            outcome = &mut relay => panic!("{outcome:?}"),
            read = game.read_exact(&mut byte) => assert_eq!(read.unwrap(), 1),
        }
    }
    let outcome = within(relay).await.unwrap();
    assert_eq!((outcome.first, outcome.error), (Side::Server, Some("stalled")));
    assert_eq!(read_to_end(&mut game).await, b"", "the silent half is closed too");
}

#[tokio::test]
async fn a_half_closed_session_whose_reader_stopped_is_ended() {
    let Session { mut player, mut game, relay, .. } =
        session(Pipes::shared(), Duration::from_millis(500)).await;
    player.shutdown().await.unwrap();
    fill(&mut game).await;
    let outcome = within(relay).await.unwrap();
    assert_eq!((outcome.first, outcome.error), (Side::Client, Some("stalled")));
}

/// Its kernel still acknowledges, so that it has not vanished for keepalive.
#[tokio::test]
async fn an_open_session_whose_reader_stopped_is_ended_by_its_socket() {
    let (_player, client) = pair().await;
    let (mut game, server) = pair().await;
    SockRef::from(&client).set_tcp_user_timeout(Some(Duration::from_millis(500))).unwrap();
    let counters = Counters::default();
    let (outcome, _) =
        within(async { tokio::join!(run(client, server, LIMIT, &counters), fill(&mut game)) }).await;
    assert_eq!((outcome.first, outcome.error), (Side::Client, Some("vanished")));
}

struct Session {
    player: TcpStream,
    game: TcpStream,
    relay: JoinHandle<Outcome>,
    counters: &'static Counters,
}

async fn session(pipes: &'static Pipes, stall: Duration) -> Session {
    let (player, client) = pair().await;
    let (game, server) = pair().await;
    let counters: &Counters = Box::leak(Box::default());
    let relay = tokio::spawn(Relay::new(client, server, stall, counters, pipes));
    Session { player, game, relay, counters }
}

pub(super) async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    tune(&near).unwrap();
    tune(&far).unwrap();
    (near, far)
}

/// Writes until the other side has not taken anything for a while. Returns how much it took.
pub(super) async fn fill(to: &mut TcpStream) -> usize {
    let mut sent = 0;
    while let Ok(written) = timeout(Duration::from_millis(200), to.write(&[7; 64 * 1024])).await {
        sent += written.unwrap();
    }
    sent
}

async fn read_to_end(from: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    within(from.read_to_end(&mut bytes)).await.unwrap();
    bytes
}

async fn within<F: Future>(future: F) -> F::Output {
    timeout(LIMIT, future).await.expect("in time")
}

/// Sends and receives at once, each a seed and a number of bytes, in chunks of random sizes.
async fn exchange(stream: TcpStream, sends: (u64, usize), receives: (u64, usize)) {
    let (from, to) = stream.into_split();
    tokio::join!(send(to, sends), receive(from, receives));
}

async fn send(mut to: impl AsyncWrite + Unpin, (seed, size): (u64, usize)) {
    let (mut random, mut sent) = (Random(seed | 1), 0);
    while sent < size {
        let chunk = random.chunk().min(size - sent);
        sent += to.write(&noise(seed, sent)[..chunk]).await.unwrap();
    }
    to.shutdown().await.unwrap();
}

async fn receive(mut from: impl AsyncRead + Unpin, (seed, size): (u64, usize)) {
    let (mut random, mut received) = (Random(!seed | 1), 0);
    let mut buffer = vec![0; LARGEST_CHUNK];
    loop {
        let chunk = random.chunk();
        let length = from.read(&mut buffer[..chunk]).await.unwrap();
        if length == 0 {
            break;
        }
        assert!(buffer[..length] == noise(seed, received)[..length], "at byte {received}");
        received += length;
    }
    assert_eq!(received, size);
}

const LARGEST_CHUNK: usize = 128 * 1024;

/// Bytes of a stream that repeats itself only after a prime number of them.
fn noise(seed: u64, offset: usize) -> &'static [u8] {
    const PERIOD: usize = 1_000_003;
    static NOISE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut random = Random(1);
        let mut bytes: Vec<u8> = (0..PERIOD).map(|_| random.next() as u8).collect();
        bytes.extend_from_within(..LARGEST_CHUNK);
        bytes
    });
    let start = (seed as usize * 7919 + offset) % PERIOD;
    &NOISE[start..start + LARGEST_CHUNK]
}

/// Xorshift. The seed must not be zero.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Mostly packets, sometimes chunks of a world.
    fn chunk(&mut self) -> usize {
        let largest = [1, 400, 8 * 1024, LARGEST_CHUNK][self.next() as usize % 4];
        1 + self.next() as usize % largest
    }
}
