package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

const (
	// partOperations and partBytes bound what a guest is handed at once. More
	// than that is handed over part by part and outside the scheduling cycle.
	partOperations = 256
	partBytes      = 1 << 20
	// holdOperations may wait for the next question, if they can travel with it.
	holdOperations = 64
	// queueParts may wait for a guest that is being fed; with more it is fed anew.
	queueParts = 4096
	// feedFactor: outside the cycle a part may take this many times a call.
	feedFactor = 10
)

// part is a delta with its encoding, which is the same for all guests that know
// classes: pods of a class are named by it.
type part struct {
	delta   *contractv1.Delta
	encoded []byte
	brief   bool // the delta names classes
	// after is the generation that it follows; a queue may join several that are empty.
	after uint64
}

func newPart(delta *contractv1.Delta) (part, error) {
	encoded, brief, err := encodeDelta(delta)
	if err != nil {
		return part{}, fmt.Errorf("encode delta %d: %w", delta.GetGeneration(), err)
	}
	return part{delta, encoded, brief, delta.GetGeneration() - 1}, nil
}

// whole is the delta with every pod in full, for guests that do not know classes.
func (p part) whole() *contractv1.Delta {
	if !p.brief {
		return p.delta
	}
	d := &contractv1.Delta{Generation: p.delta.GetGeneration(), Reset_: p.delta.GetReset_()}
	for _, op := range p.delta.GetOperations() {
		if add := op.GetPodAdd(); add.GetClass() != 0 {
			op = &contractv1.Operation{Op: &contractv1.Operation_PodAdd{PodAdd: &contractv1.PodAdd{Node: add.GetNode(), Pod: add.GetPod()}}}
		}
		d.Operations = append(d.Operations, op)
	}
	return d
}

// bytes is the encoding for a guest.
func (p part) bytes(classes bool) ([]byte, error) {
	if classes || !p.brief {
		return p.encoded, nil
	}
	encoded, err := proto.Marshal(p.whole())
	if err != nil {
		return nil, fmt.Errorf("encode delta %d: %w", p.delta.GetGeneration(), err)
	}
	return encoded, nil
}

// encodeDelta encodes a delta; of the pod of a class only what its class does not
// say. It reports whether there was one.
func encodeDelta(delta *contractv1.Delta) (out []byte, brief bool, err error) {
	for _, op := range delta.GetOperations() {
		if brief = op.GetPodAdd().GetClass() != 0; brief {
			break
		}
	}
	if !brief {
		// In one order, so that equal pods have equal bytes.
		out, err = proto.MarshalOptions{Deterministic: true}.Marshal(delta)
		return out, false, err
	}
	out = make([]byte, 0, 64*(1+len(delta.GetOperations())))
	if g := delta.GetGeneration(); g != 0 {
		out = protowire.AppendVarint(protowire.AppendTag(out, 1, protowire.VarintType), g)
	}
	if delta.GetReset_() {
		out = protowire.AppendVarint(protowire.AppendTag(out, 2, protowire.VarintType), 1)
	}
	for _, op := range delta.GetOperations() {
		out = protowire.AppendTag(out, 3, protowire.BytesType)
		add := op.GetPodAdd()
		if add.GetClass() == 0 {
			out = protowire.AppendVarint(out, uint64(proto.Size(op)))
			if out, err = (proto.MarshalOptions{UseCachedSize: true, Deterministic: true}).MarshalAppend(out, op); err != nil {
				return nil, false, err
			}
			continue
		}
		name, uid, start := add.GetPod().GetName(), add.GetPod().GetUid(), uint64(add.GetPod().GetStartTimeUnix())
		pod := protowire.SizeTag(2) + protowire.SizeBytes(len(name)) + protowire.SizeTag(3) + protowire.SizeBytes(len(uid))
		if start != 0 {
			pod += protowire.SizeTag(21) + protowire.SizeVarint(start)
		}
		node, class := uint64(add.GetNode()), uint64(add.GetClass())
		size := protowire.SizeTag(1) + protowire.SizeVarint(node) + protowire.SizeTag(2) + protowire.SizeBytes(pod) + protowire.SizeTag(3) + protowire.SizeVarint(class)
		out = protowire.AppendVarint(out, uint64(protowire.SizeTag(3)+protowire.SizeBytes(size)))
		out = protowire.AppendVarint(protowire.AppendTag(out, 3, protowire.BytesType), uint64(size))
		out = protowire.AppendVarint(protowire.AppendTag(out, 1, protowire.VarintType), node)
		out = protowire.AppendVarint(protowire.AppendTag(out, 2, protowire.BytesType), uint64(pod))
		out = protowire.AppendString(protowire.AppendTag(out, 2, protowire.BytesType), name)
		out = protowire.AppendString(protowire.AppendTag(out, 3, protowire.BytesType), uid)
		if start != 0 {
			out = protowire.AppendVarint(protowire.AppendTag(out, 21, protowire.VarintType), start)
		}
		out = protowire.AppendVarint(protowire.AppendTag(out, 3, protowire.VarintType), class)
	}
	return out, true, nil
}

func (p part) large() bool {
	return len(p.delta.GetOperations()) > partOperations || len(p.encoded) > partBytes
}

// split cuts a delta into parts of bounded size with its generation; the first
// one has its reset.
func split(delta *contractv1.Delta) ([]part, error) {
	var parts []part
	cut := func(operations []*contractv1.Operation) error {
		p, err := newPart(&contractv1.Delta{
			Generation: delta.GetGeneration(), Reset_: delta.GetReset_() && len(parts) == 0, Operations: operations,
		})
		parts = append(parts, p)
		return err
	}
	first, size := 0, 0
	operations := delta.GetOperations()
	for k, op := range operations {
		n := proto.Size(op)
		if k > first && (k-first >= partOperations || size+n > partBytes) {
			if err := cut(operations[first:k]); err != nil {
				return nil, err
			}
			first, size = k, 0
		}
		size += n
	}
	if err := cut(operations[first:]); err != nil {
		return nil, err
	}
	return parts, nil
}

// apply takes in a delta in the scheduling cycle. A small one goes to the guest
// at once or with the next question; a guest that is behind, or has a large one
// to take, is left to the supervisor. Failures break the guest; an error is that the
// delta cannot be encoded.
func (u *unit) apply(ctx context.Context, all *parts) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	generation, reset := all.whole.delta.GetGeneration(), all.whole.delta.GetReset_()
	u.wanted = generation
	if u.guest == nil {
		return nil
	}
	p, err := all.of(u.podless)
	if err != nil {
		return err
	}
	switch {
	case u.catching != nil:
		u.enqueue(p)
		return nil
	case u.blind:
		u.queue, u.queued, u.fed, u.sent = nil, 0, generation, generation
		return nil
	case reset:
		u.queue, u.queued = nil, 0
	case u.fed == generation:
		return nil
	case u.fed+1 != generation:
		if u.source() != nil {
			u.catchUpLater(true)
		}
		return nil
	}
	u.enqueue(p)
	u.fed = generation
	if p.large() || u.queued > partOperations {
		u.catchUpLater(false)
		return nil
	}
	if p.empty() {
		return nil // it travels with what says something, or with a question
	}
	if e, ok := u.guest.(evaluator); !ok || !e.evaluates() || u.queued > holdOperations {
		u.catchUpLater(false) // a guest that takes its time over it holds nobody up
	}
	return nil
}

// enqueue keeps a delta until the guest can take it; mu is held. Of those that say
// nothing one behind the other the last one is enough.
func (u *unit) enqueue(p part) {
	if last := len(u.queue) - 1; last >= 0 && p.empty() && u.queue[last].empty() && u.queue[last].delta.GetGeneration() == p.after {
		p.after = u.queue[last].after
		u.queue[last] = p
		return
	}
	if len(u.queue) >= queueParts && u.source() != nil {
		u.queue, u.queued, u.whole = nil, 0, true
		return
	}
	u.queue = append(u.queue, p)
	u.queued += len(p.delta.GetOperations())
}

// drain hands the guest what it is queued, within one call's deadline; mu is held.
func (u *unit) drain(ctx context.Context) error {
	deadline := time.Now().Add(u.call)
	queue, guest := u.queue, u.guest
	if g, ok := guest.(batchTaker); ok && g.evaluates() && len(queue) > 1 && bytesOf(queue) <= partBytes {
		switch err := g.applyAll(ctx, queue); {
		case err == nil:
			u.sent, queue = queue[len(queue)-1].delta.GetGeneration(), nil
		case !errors.Is(err, errAlone):
			u.applyFailed(ctx, err)
			return err
		}
	}
	for _, p := range queue {
		if err := guest.apply(ctx, p, max(time.Until(deadline), time.Millisecond)); err != nil {
			u.applyFailed(ctx, err)
			return err
		}
		if u.guest != guest {
			return u.unavailable() // it was late, and was taken out of service
		}
		u.sent = p.delta.GetGeneration()
	}
	u.emptied(u.sent)
	return nil
}

// emptied: the guest has what was queued for it; mu is held.
func (u *unit) emptied(sent uint64) {
	clear(u.queue)
	u.queue, u.queued, u.sent = u.queue[:0], 0, sent
	if cap(u.queue) > holdOperations {
		u.queue = nil
	}
}

func bytesOf(queue []part) int {
	size := 0
	for _, p := range queue {
		size += len(p.encoded)
	}
	return size
}

// applyFailed: nobody knows how much of the queue the guest took; mu is held.
func (u *unit) applyFailed(ctx context.Context, err error) {
	if !contractv1.Ended(ctx) {
		u.broke(err)
		return
	}
	u.queue, u.queued, u.sent, u.fed = nil, 0, 0, 0
}

// catchUpLater leaves the guest to the supervisor until it has caught up. The
// cycle may wait for that as long as for one call. mu is held.
func (u *unit) catchUpLater(whole bool) {
	u.catching, u.whole, u.missed = make(chan struct{}), whole, false
	u.patience = time.Now().Add(u.call)
	select {
	case u.hungry <- struct{}{}:
	default:
	}
}

// caughtUp ends what catchUpLater began; mu is held.
func (u *unit) caughtUp() {
	if u.catching != nil {
		close(u.catching)
		u.catching = nil
	}
}

// settled reports whether the guest has what it was given, or is out of order,
// which may last.
func (u *unit) settled() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.guest == nil || u.failed || u.catching == nil {
		return true
	}
	u.missed = true // tell who asked
	return false
}

// catchUp feeds the guest part by part until it has everything. The supervisor
// calls it; mu is held for moments only, so that the scheduling cycle goes on.
func (u *unit) catchUp(ctx context.Context, g guest) error {
	for {
		u.mu.Lock()
		if u.guest != g || u.catching == nil {
			u.mu.Unlock()
			return nil
		}
		whole, queue, sent := u.whole, u.queue, u.sent
		u.whole, u.queue, u.queued = false, nil, 0
		if !whole && len(queue) == 0 {
			u.fed = sent
			u.caughtUp()
			missed := u.missed
			u.mu.Unlock()
			if missed {
				u.changed()
			}
			return nil
		}
		u.mu.Unlock()
		if whole {
			// What was queued until now is in the replica.
			full := u.replica()
			if full == nil {
				sent = 0 // the next delta shows the gap
			} else if err := u.send(ctx, g, full); err != nil {
				return err
			} else {
				sent = full.GetGeneration()
			}
			queue = nil
		}
		gap := false
		for _, p := range queue {
			generation := p.delta.GetGeneration()
			if !p.delta.GetReset_() {
				if generation <= sent {
					continue
				}
				if gap = p.after > sent; gap {
					break
				}
			}
			if err := u.sendPart(ctx, g, p); err != nil {
				return err
			}
			sent = generation
		}
		u.mu.Lock()
		u.sent = sent
		u.whole = u.whole || gap && u.source() != nil
		u.mu.Unlock()
	}
}

// sendPart hands over what was queued.
func (u *unit) sendPart(ctx context.Context, g guest, p part) error {
	if u.blind || p.large() {
		return u.send(ctx, g, p.delta)
	}
	return g.apply(ctx, p, u.call*feedFactor)
}

func (u *unit) replica() *contractv1.Delta {
	if source := u.source(); source != nil {
		if full := source.Replica(); full.GetGeneration() > 0 {
			return full
		}
	}
	return nil
}

// blind reports whether plugins answer from what a class is alone.
func blind(described map[string]*contractv1.PluginDescription) bool {
	for _, d := range described {
		if kind := d.GetKind(); kind != sdk.KindPreEnqueue && kind != sdk.KindQueueSort || !d.GetByClass() || len(d.GetReads()) > 0 {
			return false
		}
	}
	return len(described) > 0
}

func (u *unit) send(ctx context.Context, g guest, delta *contractv1.Delta) error {
	if u.blind {
		return nil
	}
	if u.podless {
		delta = withoutPods(delta)
	}
	parts, err := split(delta)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := g.apply(ctx, p, u.call*feedFactor); err != nil {
			return err
		}
	}
	return nil
}

// ready returns the guest with its replica at a generation, or on its way there
// in the queue. mu is held, and let go of while it waits.
func (u *unit) ready(ctx context.Context, generation uint64) (guest, error) {
	if u.guest != nil && u.catching == nil && u.fed != generation && u.source() != nil {
		u.catchUpLater(true)
	}
	u.await(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if u.guest == nil || u.catching != nil || u.fed != generation {
		u.missed = true
		return nil, u.unavailable()
	}
	return u.guest, nil
}

// await waits until the guest has caught up, as long as patience lasts. mu is
// held, and let go of while it waits.
func (u *unit) await(ctx context.Context) {
	for u.guest != nil && u.catching != nil {
		left := time.Until(u.patience)
		if left <= 0 || ctx.Err() != nil {
			break
		}
		if y := contractv1.YielderOf(ctx); y != nil {
			if !u.awaitYielding(ctx, y, left) {
				break
			}
			continue
		}
		caught, timer := u.catching, time.NewTimer(left)
		u.mu.Unlock()
		select {
		case <-caught:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		u.mu.Lock()
	}
}

// aside reports whether a call only saves others. That one of them went well is no
// sign that a plugin which dozes over nodes is well again.
func aside(call string) bool {
	return call == callIdle || call == callMoved || call == callIndifferent || call == callAloof
}

const (
	callAloof       = "aloof"
	callIdle        = "idle"
	callIndifferent = "indifferent"
	callMoved       = "moved"
)

// ask runs one question against the guest at the given replica generation.
func (u *unit) ask(ctx context.Context, name, call string, generation uint64, question func(ctx context.Context, g guest, i int) error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	g, err := u.ready(ctx, generation)
	if err != nil {
		return err
	}
	i, ok := u.index[name]
	if !ok {
		return u.unavailable()
	}
	// A look at the clock costs 50 ns, a question to a module a few hundred: two
	// looks are enough.
	handed := time.Now()
	began := handed
	s := u.counted(name)
	if err := s.admit(name, handed); err != nil {
		return err
	}
	u.asking = ctx
	defer u.asked()
	if len(u.queue) > 0 {
		if err := u.drain(ctx); err != nil {
			if !contractv1.Ended(ctx) {
				now := time.Now()
				u.noteOf(s, name, now, 0, now.Sub(handed), err)
			}
			return err
		}
		began = time.Now()
	}
	asking, span := u.span(ctx, name, call)
	u.answered, u.brief = contractv1.Code_SUCCESS, false
	err = question(asking, g, i)
	endSpan(span, err)
	if contractv1.Ended(ctx) {
		return err
	}
	now := time.Now()
	if err == nil && aside(call) && !slow(now.Sub(handed), u.call) {
		return nil
	}
	if u.brief {
		s.timed(now.Sub(began))
	}
	return u.concluded(s, name, u.answered, now, now.Sub(began), now.Sub(handed), err)
}

// concluded counts a question that was asked, and what is to be said of one that failed.
func (u *unit) concluded(s *stats, name string, code contractv1.Code, now time.Time, took, whole time.Duration, err error) error {
	u.noteOf(s, name, now, took, whole, err)
	if err == nil {
		s.ended(code, took)
		return nil
	}
	if by := "plugin " + pluginOf(name) + ": "; !strings.HasPrefix(err.Error(), by) { // it may say its name itself
		err = fmt.Errorf("%s%w", by, err)
	}
	if errors.Is(err, errBroken) {
		u.broke(err)
	} else if s.failed(err, time.Now()) {
		u.log.Warn("plugin did not answer a question", "error", err)
	}
	return err
}
