-- Returns the epoch and the sequence.
return {epoch, sequence}
