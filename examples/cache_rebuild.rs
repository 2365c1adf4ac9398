//! A file that many read, and that one of them rebuilds when it is missing: a read-write lock.
//!
//! On the server that REDIS_URL names, or on a private one.

#[path = "tour/private_server.rs"]
mod private_server;

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process,
    sync::Barrier,
    thread,
};

use lockson::{Client, ReadWriteLock};

/// Each would be a process of its own; here each has a client of its own.
const READERS: usize = 8;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<()> {
    let server = private_server::PrivateServer::unless_given();
    let file = Prices(env::temp_dir().join(format!("lockson-prices-{}", process::id())));
    // All at the same time, so that many find nothing.
    let start = Barrier::new(READERS);
    let clients: Vec<Client> = (0..READERS)
        .map(|_| Client::connect(&server.url()))
        .collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for client in clients {
            let (lock, file, start) = (client.read_write_lock("example:prices"), &file.0, &start);
            readers.push(scope.spawn(move || {
                start.wait();
                prices(&lock, file)
            }));
        }
        for reader in readers {
            let said = reader.join().expect("no reader panics")?;
            println!("a reader: {said}");
        }
        Ok(())
    })
}

/// What the file says; rebuilds it first if it has to.
fn prices(lock: &ReadWriteLock, file: &Path) -> Outcome<String> {
    {
        let _reading = lock.read()?; // beside all others who read
        if file.exists() {
            return Ok(fs::read_to_string(file)?);
        }
    }
    // Who reads cannot write: it would wait for itself. So reading ended before.
    let writing = lock.write()?;
    // Another may have been here between the two.
    if !file.exists() {
        println!("rebuilt by {}", writing.holder());
        fs::write(file, "tea 3, coffee 4")?;
    }
    // From here on others may read too, and nobody can write before us.
    let reading = writing.downgrade().map_err(|(error, _writing)| error)?;
    let text = fs::read_to_string(file)?;
    reading.unlock()?;
    Ok(text)
}

/// The file, gone with this.
struct Prices(PathBuf);

impl Drop for Prices {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
