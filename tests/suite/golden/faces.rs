//! The locks of a recording, whatever their type, as its verbs need them.

use lockson::{
    AnyLock, FairLock, MultiLock, ReadLock, RedLock, ReentrantLock, Result, Ttl, WriteLock,
};

/// One lock as the verbs need it, whatever its type.
pub(super) trait Face {
    fn any(&self) -> AnyLock;

    fn is_locked(&self) -> Result<bool> {
        unimplemented!("several locks have no key to ask about")
    }

    fn hold_count(&self) -> Result<u64> {
        unimplemented!("several locks have no key to ask about")
    }

    fn remaining_ttl(&self) -> Result<Ttl> {
        unimplemented!("several locks have no key to ask about")
    }

    fn force_unlock(&self) -> Result<bool> {
        unimplemented!("several locks have no key to ask about")
    }
}

macro_rules! face {
    ($lock:ty) => {
        impl Face for $lock {
            fn any(&self) -> AnyLock {
                self.into()
            }

            fn is_locked(&self) -> Result<bool> {
                self.is_locked()
            }

            fn hold_count(&self) -> Result<u64> {
                self.hold_count()
            }

            fn remaining_ttl(&self) -> Result<Ttl> {
                self.remaining_ttl()
            }

            fn force_unlock(&self) -> Result<bool> {
                self.force_unlock()
            }
        }
    };
}

face!(ReentrantLock);
face!(FairLock);
face!(ReadLock);
face!(WriteLock);

impl Face for MultiLock {
    fn any(&self) -> AnyLock {
        self.into()
    }
}

impl Face for RedLock {
    fn any(&self) -> AnyLock {
        self.into()
    }
}
