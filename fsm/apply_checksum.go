package fsm

// checksum answers the hash chain as of the entry before. Every server has
// computed it already, so nothing is read.
func (a *apply) checksum() Result { return Result{Hash: a.chain} }
