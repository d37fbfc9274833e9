//! Deliveries when the duties change hands, and orders of a bus that wait: what a whole node shows only by chance.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use chancery_agh::settings::Settings as AghSettings;
use chancery_agh::soft::Soft as AghSoft;
use chancery_core::admin::{RunState, run_state_key};
use chancery_core::delivery::{Delivery, Whisper, outbox_key};
use chancery_core::line::{Draft, DraftEnvelope, Origin, ProtocolName, Seq};
use chancery_core::rows::{Row, RowChange, RowKey};
use chancery_core::time::Time;
use chancery_journal::{Chain, InForce, Lines};
use chancery_store::{Batch, Memory, Store, StoredUnit};
use chancery_testkit::TestSuite;
use tokio::sync::watch;

use super::handing::{Bus, Made, Order};
use super::progress::{Attempts, Progress};
use super::*;
use crate::clerks::{Hands, Threads};
use crate::clock::Entropy;
use crate::duties::Duties;
use crate::gate::{GateLimits, Parts};
use crate::inboxes::Inboxes;
use crate::overlay::Overlay;
use crate::rates::Rates;
use crate::soft::{SharedAgh, Soft, SoftLimits};
use crate::timers::Timers;
use crate::vault::Vault;

mod nothing;
mod shared_store;

use nothing::Nothing;
use shared_store::SharedStore;

/// No event of these stories takes longer, by a clock that runs when nothing else does.
const PATIENCE: Duration = Duration::from_secs(600);

/// A carrier that notes the lines it is to bring, and hangs where it is told to.
#[derive(Default)]
struct Noting {
    made: Mutex<Vec<(Seq, String)>>,
    /// To whom every attempt hangs.
    hangs: Option<&'static str>,
}

impl Carrier for Noting {
    fn carry(&self, delivery: Delivery, envelope: Bytes, _: Leave) -> Attempt {
        let text = String::from_utf8_lossy(&envelope).into_owned();
        let seq = text.trim_matches(|c: char| !c.is_ascii_digit()).parse();
        let hangs = Some(delivery.to.as_str()) == self.hangs;
        self.made.lock().unwrap().push((seq.unwrap(), delivery.to));
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            Carried::Delivered
        })
    }

    fn whisper(&self, _: Whisper) {}
}

/// A bus that takes everything, as slowly as its clock goes.
struct Taking {
    up: watch::Sender<bool>,
    taken: Mutex<Vec<Order>>,
    on_their_way: AtomicUsize,
    most: AtomicUsize,
}

impl Taking {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            up: watch::Sender::new(true),
            taken: Mutex::default(),
            on_their_way: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        })
    }
}

/// What a test hands out through: the bus that it looks into.
struct Through(Arc<Taking>);

impl Bus for Through {
    fn hand_out(&self, order: Order) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let bus = Arc::clone(&self.0);
        Box::pin(async move {
            let now = bus.on_their_way.fetch_add(1, Ordering::SeqCst) + 1;
            bus.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(1)).await;
            bus.on_their_way.fetch_sub(1, Ordering::SeqCst);
            bus.taken.lock().unwrap().push(order);
            true
        })
    }

    fn is_up(&self) -> watch::Receiver<bool> {
        self.0.up.subscribe()
    }
}

/// An outbox with what it needs, over a store that others share.
struct House {
    store: Arc<SharedStore>,
    gate: Gate<TestSuite>,
    outbox: Arc<Outbox>,
    timers: Timers,
    duties: Duties,
    carrier: Arc<Noting>,
    suspended: Arc<Suspended>,
    _threads: Threads,
}

impl House {
    fn new(carrier: Noting) -> Self {
        let store = Arc::new(SharedStore::new(Memory::new()));
        let shared: Arc<dyn Store> = Arc::clone(&store) as Arc<_>;
        let (suite, clock) = (Arc::new(TestSuite::default()), Clock::System);
        let rows = Overlay::new(Arc::clone(&shared));
        let parts = Parts {
            in_force: InForce::of_rows(&*suite, &rows).unwrap(),
            suite,
            store: Arc::clone(&shared),
            vault: Arc::new(Vault::new()),
            clock: clock.clone(),
            entropy: Entropy::System,
            limits: GateLimits::default(),
        };
        let limits = SoftLimits::default();
        let inboxes = Arc::new(Inboxes::new(Arc::clone(&shared)));
        let rates = Rates::new(limits.rate_per_sender, true);
        let soft = Soft::new(
            limits,
            inboxes,
            Arc::clone(&shared),
            rates,
            SharedAgh::new(AghSoft::new(&AghSettings::default()).into()),
        );
        let started = Gate::start(parts, soft, Hands::Own, |_| Box::new(Nothing));
        let (gate, threads) = started.unwrap();
        let (carrier, suspended) = (Arc::new(carrier), Suspended::on_record(&*shared).unwrap());
        let outbox = Outbox::new(
            shared,
            clock.clone(),
            Arc::clone(&carrier) as Arc<_>,
            Arc::clone(&suspended),
            Arc::default(),
        );
        Self {
            store,
            gate,
            outbox: Arc::new(outbox),
            timers: Timers::new(clock),
            duties: Duties::new(),
            carrier,
            suspended,
            _threads: threads,
        }
    }

    /// Lines on record, each with a delivery of its own.
    fn record(&self, deliveries: Vec<Delivery>) -> Vec<(RowKey, Delivery)> {
        let base = self.store.head();
        let (mut chain, mut lines) = (Chain::after(base), Lines::default());
        let (mut rows, mut recorded) = (Vec::new(), Vec::new());
        for (n, delivery) in deliveries.into_iter().enumerate() {
            let seq = base.seq + 1 + n as u64;
            let draft = Draft {
                protocol: ProtocolName::Test,
                origin: Origin::External,
                envelope: DraftEnvelope::Whole(format!("{{\"line\":{seq}}}").into()),
                raw: None,
                signature: None,
                eval_ts: Time::from_unix_seconds(1),
                meta: Vec::new(),
            };
            let envelope = draft.envelope.bytes().clone();
            chain.append_unit([(&draft, envelope)].into_iter(), &mut lines);
            let row = Row::from(serde_json::to_vec(&delivery).unwrap());
            rows.push((outbox_key(seq, 0), Some(row)));
            recorded.push((outbox_key(seq, 0), delivery));
        }
        self.commit(base, chain.head(), lines, rows);
        recorded
    }

    /// Who may send, on record; everybody's node has heard of it.
    fn set(&self, participant: &str, state: RunState) {
        let row = Row::from(serde_json::to_vec(&state).unwrap());
        self.store.put_row((run_state_key(participant), Some(row)));
        self.suspended.read_anew(&*self.store).unwrap();
    }

    fn commit(
        &self,
        base: chancery_journal::Head,
        head: chancery_journal::Head,
        lines: Lines,
        rows: Vec<RowChange>,
    ) {
        let units = vec![StoredUnit {
            rows,
            remembered: Vec::new(),
        }];
        let batch = Batch {
            base,
            head,
            lines,
            units,
            spent: Vec::new(),
        };
        self.store.commit(batch).unwrap();
    }

    /// Returns once so many attempts were made.
    async fn made(&self, attempts: usize) -> Vec<(Seq, String)> {
        let enough = async {
            loop {
                let made = self.carrier.made.lock().unwrap().clone();
                if made.len() >= attempts {
                    return made;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let made = tokio::time::timeout(PATIENCE, enough).await;
        made.expect("an attempt is missing")
    }

    /// What becomes of orders that a node takes at once, unless they stay in its hands.
    async fn make_all(&self, orders: &[Order]) -> Vec<Option<Made>> {
        let mut making: Vec<_> = orders
            .iter()
            .map(|order| {
                let (outbox, gate, bytes) = (
                    Arc::clone(&self.outbox),
                    self.gate.clone(),
                    order.bytes.clone(),
                );
                tokio::spawn(async move { outbox.make(&gate, &bytes, Arc::new(|| true)).await })
            })
            .collect();
        // Shorter than an order waits for its turn.
        tokio::time::sleep(Duration::from_secs(20)).await;
        let mut made = Vec::with_capacity(making.len());
        for one in &mut making {
            made.push(match one.is_finished() {
                true => Some(one.await.unwrap()),
                false => None,
            });
        }
        making.iter().for_each(tokio::task::JoinHandle::abort);
        made
    }
}

fn delivery(from: &str, to: &str) -> Delivery {
    Delivery {
        protocol: ProtocolName::Test,
        from: from.to_owned(),
        to: to.to_owned(),
        exempt: false,
        pauses_ms: vec![3_600_000],
        attempt_ms: 3_600_000,
        within_ms: None,
        then_ask: None,
    }
}

#[tokio::test(start_paused = true)]
async fn what_slips_past_the_end_of_a_duty_holds_nobody_up_in_the_next() {
    // VX-ORD-3, CH-JRN-5
    let house = House::new(Noting::default());
    house.store.set_duty(Some(1));
    let (gate, outbox) = (&house.gate, &house.outbox);
    house.duties.take_up(gate, outbox, &house.timers).unwrap();
    // The duty goes, and a commit that still took it for this process's begins a delivery.
    house.store.set_duty(None);
    outbox.pause();
    let first = house.record(vec![delivery("ann", "far")]);
    outbox.start(gate, &first, None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(house.carrier.made.lock().unwrap().is_empty());
    house.store.set_duty(Some(2));
    house.duties.take_up(gate, outbox, &house.timers).unwrap();
    let second = house.record(vec![delivery("ann", "far")]);
    outbox.start(gate, &second, None);
    let made: Vec<Seq> = house.made(2).await.into_iter().map(|one| one.0).collect();
    assert_eq!(made, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn who_takes_the_duties_up_asks_few_questions_and_for_timers_first() {
    // CH-JRN-5, VX-RTY-1
    const OPEN: usize = 5_000;
    let house = House::new(Noting::default());
    let recorded = house.record(vec![delivery("ann", "far"); OPEN]);
    let progress = Progress::new(Arc::clone(&house.store) as Arc<_>);
    let attempted = Attempts {
        made: 1,
        due: Some(Clock::System.now()),
    };
    let keys = recorded.iter().map(|(key, _)| key);
    progress.record(keys, attempted).unwrap();
    house.store.set_duty(Some(1));
    house.store.forget_questions();
    let (gate, outbox) = (&house.gate, &house.outbox);
    house.duties.take_up(gate, outbox, &house.timers).unwrap();
    let asked = house.store.questions();
    println!("{} questions for {OPEN} open deliveries", asked.len());
    assert!(asked.len() < 20, "{} questions", asked.len());
    let place = |space: &str| asked.iter().position(|one| one == space);
    assert!(place("timer") < place("outbox"), "{asked:?}");
    // Each is attempted once more, and goes.
    house.made(OPEN).await;
}

#[tokio::test(start_paused = true)]
async fn orders_leave_for_the_bus_a_few_at_a_time_and_all_of_them() {
    const OPEN: usize = 2_000;
    let house = House::new(Noting::default());
    house.record(vec![delivery("ann", "far"); OPEN]);
    let taking = Taking::new();
    let bus: Arc<dyn Bus> = Arc::new(Through(Arc::clone(&taking)));
    house.outbox.hand_out_through(Arc::clone(&bus));
    house.outbox.hand_out_all(&bus).unwrap();
    // While a round is under way another one does not begin.
    house.outbox.hand_out_all(&bus).unwrap();
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(taking.taken.lock().unwrap().len(), OPEN);
    let most = taking.most.load(Ordering::SeqCst);
    assert!((2..=256).contains(&most), "{most} at once");
}

#[tokio::test(start_paused = true)]
async fn what_a_suspended_sender_has_lies_in_nobodys_hands() {
    // CH-ID-5, CH-JRN-5
    const OPEN: usize = 5_000;
    let house = House::new(Noting::default());
    let deliveries = (0..OPEN).map(|n| delivery("ann", &format!("far-{n}")));
    house.record(deliveries.collect());
    let taking = Taking::new();
    let bus: Arc<dyn Bus> = Arc::new(Through(Arc::clone(&taking)));
    house.outbox.hand_out_through(Arc::clone(&bus));
    house.outbox.hand_out_all(&bus).unwrap();
    tokio::time::sleep(PATIENCE).await;
    let orders = std::mem::take(&mut *taking.taken.lock().unwrap());
    assert_eq!(orders.len(), OPEN);
    house.set("ann", RunState::Suspended);
    let made = house.make_all(&orders).await;
    let in_hand = made.iter().filter(|made| made.is_none()).count();
    println!("{in_hand} of {OPEN} orders of a suspended sender stay in a node's hands");
    assert!(made.iter().all(|made| *made == Some(Made::Done)));
    assert!(house.carrier.made.lock().unwrap().is_empty());
    // They are on record, are not handed out meanwhile, and are when it runs again.
    house.outbox.hand_out_all(&bus).unwrap();
    tokio::time::sleep(PATIENCE).await;
    assert!(taking.taken.lock().unwrap().is_empty());
    house.set("ann", RunState::Running);
    house.outbox.hand_out_all(&bus).unwrap();
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(taking.taken.lock().unwrap().len(), OPEN);
}

#[tokio::test(start_paused = true)]
async fn who_runs_again_is_handed_out_soon() {
    let house = House::new(Noting::default());
    house.set("ann", RunState::Suspended);
    house.record(vec![delivery("ann", "far")]);
    house.store.set_duty(Some(1));
    let taking = Taking::new();
    let bus: Arc<dyn Bus> = Arc::new(Through(Arc::clone(&taking)));
    house.outbox.hand_out_through(Arc::clone(&bus));
    let handing =
        Arc::clone(&house.outbox).keep_handing_out(house.gate.clone(), house.duties.changes());
    let handing = tokio::spawn(handing);
    let (gate, outbox) = (&house.gate, &house.outbox);
    house.duties.take_up(gate, outbox, &house.timers).unwrap();
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert!(taking.taken.lock().unwrap().is_empty());
    house.set("ann", RunState::Running);
    // Sooner than everything is handed out again anyway.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(taking.taken.lock().unwrap().len(), 1);
    handing.abort();
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_does_not_move_leaves_a_nodes_hands_to_others() {
    // VX-ORD-3, CH-JRN-5
    const OPEN: usize = 5_000;
    let house = House::new(Noting {
        hangs: Some("far"),
        ..Noting::default()
    });
    let mut deliveries = vec![delivery("ann", "far"); OPEN];
    deliveries.push(delivery("cyd", "near"));
    house.record(deliveries);
    let taking = Taking::new();
    let bus: Arc<dyn Bus> = Arc::new(Through(Arc::clone(&taking)));
    house.outbox.hand_out_through(Arc::clone(&bus));
    house.outbox.hand_out_all(&bus).unwrap();
    tokio::time::sleep(PATIENCE).await;
    let mut orders = std::mem::take(&mut *taking.taken.lock().unwrap());
    orders.sort_by_key(|order| order.name.parse::<f64>().unwrap() as Seq);
    let made = house.make_all(&orders).await;
    let in_hand = made.iter().filter(|made| made.is_none()).count();
    println!("{in_hand} of {OPEN} orders behind one that hangs stay in a node's hands");
    assert!((2..100).contains(&in_hand), "{in_hand}");
    assert_eq!(made[OPEN], Some(Made::Done), "the other's delivery");
    // The first ones stay, in their order, and of the others none before another that is behind it.
    assert!(made[..in_hand].iter().all(Option::is_none));
    assert_eq!(house.made(2).await.len(), 2);
}
