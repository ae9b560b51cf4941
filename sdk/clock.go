package sdk

import "time"

// clock is the time of the question at hand, and how long its answers hold.
type clock struct {
	read    func() time.Time
	now     time.Time // zero: nobody asked
	until   int64     // Unix milliseconds; 0: time does not end the answers
	expires bool      // it may ask for the time
}

// begin is called before each question.
func (c *clock) begin(p *servedState) {
	c.expires, c.until = p.expires, 0
	if p.expires {
		c.now = time.Time{}
	}
}

func (c *clock) time() time.Time {
	switch {
	case c == nil:
		return time.Now()
	case !c.expires:
		panic("it asks for the time, or says until when an answer holds, and is not registered with Expires: its answers would be kept as they are")
	case c.now.IsZero() && c.read != nil:
		c.now = c.read()
	case c.now.IsZero():
		c.now = time.Now()
	}
	return c.now
}

func (c *clock) hold(until time.Time) {
	if c == nil || until.IsZero() {
		return
	}
	c.time()
	// Not before it: asked again a moment too soon, the plugin would say the same.
	at := max(until.Add(time.Millisecond-1).UnixMilli(), 1)
	if c.until == 0 || at < c.until {
		c.until = at
	}
}

// Now is the time of the question, one for all nodes of it. The plugin is registered
// with Expires and says by Until when its answer may be another.
func (r *Request) Now() time.Time { return r.clock.time() }

// Until says that the answer about this node holds until t, if nothing changes before:
// a verdict of a predicate, one that the pod fits too, or a raw score. The host keeps
// it until then; at t it asks about all nodes again, and tries pods again that the
// plugin refused. The zero time is never. The plugin is registered with Expires.
func (r *Request) Until(t time.Time) { r.clock.hold(t) }

// Now is as Request.Now.
func (b *Batch) Now() time.Time { return b.clock.time() }

// Until is as Request.Until, of the answers about all nodes of the batch.
func (b *Batch) Until(t time.Time) { b.clock.hold(t) }

// SetClock has Request.Now of a guest's plugins read another clock; it is for tests.
func (g *Guest) SetClock(now func() time.Time) { g.clock.read = now }

// Until is when the answers end that plugin i gave to the last question, in Unix
// milliseconds; 0: time does not end them. Only for plugins that are registered with Expires.
func (g *Guest) Until(i int) (int64, error) {
	p, err := g.plugin(i, "")
	if err != nil {
		return 0, err
	}
	return p.until, nil
}
