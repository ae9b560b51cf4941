package handover

import "sync"

// Loop does an owner's work until it is over (false), or until it received from
// Wanted and so has to end (true).
type Loop func() (gaveWay bool)

// Ownership of a state. At each moment one goroutine owns it, or two are about to hand
// it over.
type Ownership struct {
	wanted chan struct{}
	away   int // the owner's
	group  sync.WaitGroup
}

// New is an ownership that nobody has yet.
func New() *Ownership { return &Ownership{wanted: make(chan struct{})} }

// Run has a loop own the state, and returns when it and all that followed it are over.
func (o *Ownership) Run(loop Loop) {
	o.start(loop)
	o.group.Wait()
}

func (o *Ownership) start(loop Loop) {
	o.group.Go(func() {
		if !loop() && o.away > 0 {
			<-o.wanted // the last one that is away ends it
		}
	})
}

// Leave has another loop own the state. Who owned it touches nothing of it until
// Return has returned, which must be called.
func (o *Ownership) Leave(loop Loop) {
	o.away++
	o.start(loop)
}

// Return waits for the owner to give way, and owns the state then.
func (o *Ownership) Return() {
	o.wanted <- struct{}{}
	o.away--
}

// Wanted is where an owner that is between two pieces of work receives: somebody
// wants the state back, and has it. Its loop returns true at once.
func (o *Ownership) Wanted() <-chan struct{} { return o.wanted }

// Away is how many have left and want to return. The owner may ask.
func (o *Ownership) Away() int { return o.away }
