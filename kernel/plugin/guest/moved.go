package guest

// Mover is a guest that knows which answers of its plugins changed.
type Mover interface {
	// Moved lists the nodes about which plugin i may answer otherwise than at the
	// moment since; known is false if it may about any.
	Moved(i int, class uint32, since uint64) (now uint64, nodes []uint32, known bool, err error)
}
