package recorder

import (
	"context"
	"errors"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// attempts bounds how often an event is tried to be written, and retryAfter is the
// time between.
const (
	attempts   = 12
	retryAfter = 10 * time.Second
)

// endsWithin is how long what waits may take to be written when Run ends.
const endsWithin = 2 * time.Second

// staff has a writer at work for what waits, as far as there may be more: one that is
// at work takes a batch with it when it comes back. The lock is held.
func (r *Recorder) staff() {
	if r.run == nil || r.busy >= r.cfg.Writers || r.busy-r.pausing >= len(r.queue) || r.held() {
		return
	}
	r.busy++
	ctx := r.run
	r.writers.Go(func() { r.write(ctx) })
}

// next is the batch that a writer writes next; without any it is one no more.
func (r *Recorder) next(ctx context.Context) []occurrence {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || ctx.Err() != nil || r.held() {
		r.busy--
		return nil
	}
	batch := r.queue[0]
	r.queue[0] = nil
	if r.queue = r.queue[1:]; len(r.queue) == 0 {
		r.queue = nil
	}
	r.waiting -= len(batch)
	return batch
}

func (r *Recorder) write(ctx context.Context) {
	var memory []eventsv1.Event
	for {
		batch := r.next(ctx)
		if batch == nil {
			return
		}
		if len(batch) > len(memory) {
			memory = make([]eventsv1.Event, len(batch))
		}
		r.record(ctx, batch, memory)
	}
}

// Run writes events until ctx ends, and then what waits. It can be called once.
func (r *Recorder) Run(ctx context.Context) error {
	writing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	r.mu.Lock()
	if r.stopped != nil {
		r.mu.Unlock()
		return errors.New("event recorder: run was called twice")
	}
	r.run, r.stopped = writing, ctx.Done()
	for range r.cfg.Writers {
		r.staff()
	}
	r.mu.Unlock()
	defer r.end(giveUp)
	finish, refresh := r.deps.Clock.NewTicker(finishAfter), r.deps.Clock.NewTicker(refreshAfter)
	defer finish.Stop()
	defer refresh.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-finish.C():
			for _, s := range r.series.finished(r.deps.Clock.Now()) {
				r.tellSeries(writing, s)
			}
		case <-refresh.C():
			for _, s := range r.series.running() {
				r.tellSeries(writing, s)
			}
		}
	}
}

// end has what waits written, and waits for the writers.
func (r *Recorder) end(giveUp context.CancelFunc) {
	r.mu.Lock()
	r.cfg.Queue, r.cfg.Held = 0, 0 // what comes from here on is dropped, and nothing is held
	for range r.cfg.Writers {
		r.staff()
	}
	r.run = nil
	r.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.writers.Wait()
	}()
	late := r.deps.Clock.NewTimer(endsWithin)
	defer late.Stop()
	select {
	case <-late.C():
		giveUp()
		<-ended
	case <-ended:
	}
	for _, batch := range r.queue {
		for range batch {
			r.drop(causeWrite)
		}
	}
	r.queue, r.waiting = nil, 0
}

// record puts events together, and writes those that no series counts.
func (r *Recorder) record(ctx context.Context, batch []occurrence, memory []eventsv1.Event) {
	fresh := make([]*eventsv1.Event, 0, len(batch))
	var seconds []*eventsv1.Event
	for i := range batch {
		event := &memory[i]
		if err := r.event(&batch[i], event); err != nil {
			r.drop(causeWrite)
			r.deps.Log.Warn("event not written", "reason", batch[i].reason, "err", err)
			continue
		}
		if !r.once[event.Reason] {
			series, second := r.series.add(event, batch[i].at)
			if second {
				seconds = append(seconds, series)
			}
			if series != nil {
				continue
			}
		}
		fresh = append(fresh, event)
	}
	r.persist(ctx, fresh, func(events []*eventsv1.Event) []error { return r.deps.Sink.Create(ctx, events) })
	for _, series := range seconds {
		r.tellSeries(ctx, series)
	}
}

// tellSeries writes how often an event came; one that is not there any more is
// written anew.
func (r *Recorder) tellSeries(ctx context.Context, event *eventsv1.Event) {
	r.persist(ctx, []*eventsv1.Event{event}, func([]*eventsv1.Event) []error {
		err := r.deps.Sink.SetSeries(ctx, event.Namespace, event.Name, event.Series)
		if apierrors.IsNotFound(err) {
			if err = r.deps.Sink.Create(ctx, []*eventsv1.Event{event.DeepCopy()})[0]; apierrors.IsAlreadyExists(err) {
				err = errEarly
			}
		}
		return []error{err}
	})
}

// errEarly: the first event of a series was written between two looks.
var errEarly = errors.New("the event came to be meanwhile")

// persist writes events, and those again whose writing failed for reasons that pass.
func (r *Recorder) persist(ctx context.Context, events []*eventsv1.Event, write func([]*eventsv1.Event) []error) {
	for attempt := 1; len(events) > 0; attempt++ {
		var again []*eventsv1.Event
		wait := time.Millisecond
		for i, err := range write(events) {
			var refused apierrors.APIStatus
			var unsendable *rest.RequestConstructionError
			switch {
			case err == nil || apierrors.IsAlreadyExists(err):
			case errors.As(err, &refused) || errors.As(err, &unsendable) || attempt == attempts:
				r.drop(causeWrite)
				r.deps.Log.Warn("event not written", "event", events[i].Namespace+"/"+events[i].Name, "attempts", attempt, "err", err)
			default:
				again = append(again, events[i])
				if !errors.Is(err, errEarly) {
					wait = retryAfter
				}
			}
		}
		if events = again; len(events) == 0 {
			return
		}
		if !r.pause(wait) {
			for range events {
				r.drop(causeWrite)
			}
			return
		}
	}
}

// pause waits before something is tried again; false: there is no time left. Another writer
// may take this one's place meanwhile.
func (r *Recorder) pause(wait time.Duration) bool {
	count := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.pausing += n
		r.staff()
	}
	count(1)
	defer count(-1)
	pause := r.deps.Clock.NewTimer(wait)
	defer pause.Stop()
	select {
	case <-pause.C():
		return true
	case <-r.stopped:
		return false
	}
}
