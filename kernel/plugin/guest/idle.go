package guest

// Idler is a guest that knows which of its plugins have nothing to say.
type Idler interface {
	// Idle reports whether plugin i has nothing to say about a class.
	Idle(i int, class uint32) (bool, error)
}
