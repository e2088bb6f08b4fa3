//! Where the records of a capture go: a file, or a writer of the user's.

use std::fs::File;
use std::io::{self, Write};

use super::pcap_format::whole_records_len;

/// Where the records go.
pub(super) enum CaptureOutput {
    File(File),
    Writer(Box<dyn Write + Send>),
}

impl CaptureOutput {
    /// Writes whole records behind `before` bytes. If a file is full in the middle of a record, that record is cut off.
    pub(super) fn write_records(&mut self, records: &[u8], before: u64) -> io::Result<()> {
        let file = match self {
            CaptureOutput::Writer(writer) => return writer.write_all(records),
            CaptureOutput::File(file) => file,
        };
        let mut written = 0;
        while written < records.len() {
            match file.write(&records[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Not possible for a pipe, where the reader notices the missing end.
                    let _ = file.set_len(before + whole_records_len(records, written) as u64);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            CaptureOutput::File(file) => file.flush(),
            CaptureOutput::Writer(writer) => writer.flush(),
        }
    }
}
