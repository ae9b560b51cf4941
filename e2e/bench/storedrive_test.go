package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
	"pintle.dev/pintle/sdk/footprint"
)

// engine is what a drive writes to. Both sides get the same load from the same
// loop in a process of its own.
type engine interface {
	// create writes a key that must not be there yet, and returns when that is
	// on the disk: what a create through the API asks of a store.
	create(ctx context.Context, writer int, key string, value []byte) error
	// follow calls seen with every value written from now on, until ctx ends,
	// from one goroutine.
	follow(ctx context.Context, watcher int) (run func(seen func(value []byte)) error, err error)
	// count is the number of keys, as they are found by a reader who comes new.
	count(ctx context.Context) (int, error)
	close() error
}

const driveKeys = "/registry/pods/"

// TestDrive drives a store as $PINTLE_DRIVE says, which is how the benchmark
// store uses it; without that, the embedded one with a small load.
func TestDrive(t *testing.T) {
	d := drive{Engine: "pintle", Target: t.TempDir(), Writers: 8, Watchers: 20, Rate: 2000, Seconds: 0.3, Bytes: 1024}
	text := os.Getenv("PINTLE_DRIVE")
	if text != "" {
		d = drive{}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text == "" {
		if got.Writes == 0 || got.Delivered != got.Expected {
			t.Fatalf("%d writes, %d of %d deliveries", got.Writes, got.Delivered, got.Expected)
		}
		return
	}
	raw, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Out, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (d drive) open() (engine, error) {
	switch d.Engine {
	case "pintle":
		return openEmbedded(d.Target)
	case "etcd":
		return openEtcd(d.Target, d.Connections)
	}
	return nil, fmt.Errorf("no engine %q", d.Engine)
}

func (d drive) run(ctx context.Context) (driven, error) {
	var out driven
	e, err := d.open()
	if err != nil {
		return out, err
	}
	defer e.close()
	watchCtx, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watching sync.WaitGroup
	var delivered atomic.Int64
	var faults failures
	deliveries := make([][]time.Duration, d.Watchers)
	for i := range d.Watchers {
		run, err := e.follow(watchCtx, i)
		if err != nil {
			return out, err
		}
		watching.Go(func() {
			faults.add(run(func(value []byte) {
				at := time.Duration(binary.BigEndian.Uint64(value))
				deliveries[i] = append(deliveries[i], time.Duration(time.Now().UnixNano())-at)
				delivered.Add(1)
			}))
		})
	}
	latencies, writes, took := d.write(ctx, e, &faults)
	out.Writes, out.WritesASecond = writes, float64(writes)/took.Seconds()
	out.Write = spreadOf(latencies)
	out.Expected = writes * d.Watchers
	// What is under way arrives; what a slow reader has lost does not.
	for end := time.Now().Add(10 * time.Second); delivered.Load() < int64(out.Expected) && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(5 * time.Millisecond)
	}
	stopWatching()
	watching.Wait()
	out.Delivered = int(delivered.Load())
	out.Delivery = spreadOf(slices.Concat(deliveries...))
	if err := faults.all(); err != nil {
		return out, err
	}
	// An acknowledged write that is not there would be no write.
	n, err := e.count(ctx)
	if err == nil && n != writes {
		err = fmt.Errorf("%d writes were acknowledged, %d keys are there", writes, n)
	}
	return out, err
}

// write lets all writers write for the time of the drive, each one write at a
// time, and returns what each write took.
func (d drive) write(ctx context.Context, e engine, faults *failures) (latencies []time.Duration, writes int, took time.Duration) {
	each := make([][]time.Duration, d.Writers)
	var wg sync.WaitGroup
	begin := time.Now()
	end := begin.Add(time.Duration(d.Seconds * float64(time.Second)))
	for w := range d.Writers {
		wg.Go(func() {
			random := rand.NewChaCha8([32]byte{byte(w)})
			for i := 0; ; i++ {
				if d.Rate > 0 {
					due := begin.Add(time.Duration(i*d.Writers+w) * time.Second / time.Duration(d.Rate))
					if !due.Before(end) {
						return
					}
					time.Sleep(time.Until(due))
				}
				at := time.Now()
				if !at.Before(end) || ctx.Err() != nil {
					return
				}
				value := make([]byte, d.Bytes)
				_, _ = random.Read(value)
				binary.BigEndian.PutUint64(value, uint64(at.UnixNano()))
				if err := e.create(ctx, w, fmt.Sprintf("%sdefault/w%d-%d", driveKeys, w, i), value); err != nil {
					faults.add(err)
					return
				}
				each[w] = append(each[w], time.Since(at))
			}
		})
	}
	wg.Wait()
	took = max(end.Sub(begin), time.Since(begin))
	latencies = slices.Concat(each...)
	return latencies, len(latencies), took
}

// embedded is Pintle's store and bus, in this process as in the kernel's.
type embedded struct {
	dir    string
	store  *store.Store
	bus    *bus.Bus
	stop   context.CancelFunc
	ended  chan error
	closed bool
}

func openEmbedded(dir string) (*embedded, error) {
	s, err := store.Open(store.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	b, err := bus.New(bus.Config{}, s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &embedded{dir: dir, store: s, bus: b, stop: cancel, ended: make(chan error, 1)}
	go func() { e.ended <- s.Run(ctx) }()
	go footprint.Keep(ctx, footprint.Options{Spacious: true}) // which the kernel does too
	return e, nil
}

func (e *embedded) create(ctx context.Context, _ int, key string, value []byte) error {
	_, err := e.store.Commit(ctx, store.Write{Key: key, Value: value})
	return err
}

func (e *embedded) follow(ctx context.Context, _ int) (func(func([]byte)) error, error) {
	sub, err := e.bus.Subscribe(bus.Options{Key: driveKeys, Recursive: true, After: e.store.CurrentRevision()})
	if err != nil {
		return nil, err
	}
	return func(seen func([]byte)) error {
		defer sub.Close()
		for {
			events, err := sub.Next(ctx)
			if err != nil {
				return err
			}
			for _, event := range events {
				seen(event.Value)
			}
		}
	}, nil
}

// count asks a store that was opened anew.
func (e *embedded) count(context.Context) (int, error) {
	if err := e.close(); err != nil {
		return 0, err
	}
	s, err := store.Open(store.Config{Dir: e.dir})
	if err != nil {
		return 0, err
	}
	n, _ := s.Size(driveKeys)
	return int(n), s.Close()
}

func (e *embedded) close() error {
	if e.closed {
		return nil
	}
	e.closed = true
	e.stop()
	return errors.Join(<-e.ended, e.store.Close())
}

// remote is an etcd, by the client that kube-apiserver uses.
type remote struct{ clients []*clientv3.Client }

func openEtcd(url string, connections int) (*remote, error) {
	r := &remote{}
	for range max(connections, 1) {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.clients = append(r.clients, c)
	}
	return r, nil
}

func (r *remote) create(ctx context.Context, writer int, key string, value []byte) error {
	response, err := r.clients[writer%len(r.clients)].Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, string(value))).Commit()
	if err == nil && !response.Succeeded {
		err = fmt.Errorf("key %s is there already", key)
	}
	return err
}

func (r *remote) follow(ctx context.Context, watcher int) (func(func([]byte)) error, error) {
	created := r.clients[watcher%len(r.clients)].Watch(ctx, driveKeys, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if first := <-created; first.Err() != nil {
		return nil, first.Err()
	}
	return func(seen func([]byte)) error {
		for response := range created {
			if err := response.Err(); err != nil {
				return err
			}
			for _, event := range response.Events {
				seen(event.Kv.Value)
			}
		}
		if ctx.Err() == nil {
			return errors.New("etcd ended a watch")
		}
		return nil
	}, nil
}

func (r *remote) count(ctx context.Context) (int, error) {
	response, err := r.clients[0].Get(ctx, driveKeys, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(response.Count), nil
}

func (r *remote) close() error {
	var errs []error
	for _, c := range r.clients {
		if err := c.Close(); err != nil && !strings.Contains(err.Error(), "canceled") {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
