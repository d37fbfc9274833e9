//! Whom a thread works for. Several nodes can run in one process, each with threads of its own; what they count for the
//! process is told apart by the name that their threads have.

use std::cell::RefCell;
use std::sync::Arc;

/// The name of a node among those of its process.
pub type Tenant = Arc<str>;

thread_local! {
    static OF_THREAD: RefCell<Option<Tenant>> = const { RefCell::new(None) };
}

/// This thread works for a tenant from here on, or for the only node of the process.
pub fn work_for(tenant: Option<Tenant>) {
    OF_THREAD.set(tenant);
}

/// Whom this thread works for; none in a process with one node.
pub fn of_this_thread() -> Option<Tenant> {
    OF_THREAD.with_borrow(Clone::clone)
}
