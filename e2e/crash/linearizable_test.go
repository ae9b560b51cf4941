//go:build linux && (amd64 || arm64)

package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

const (
	clients   = 8
	registers = 5
)

// register is one way to the store. A value is a number of its own for each write; revision is that of the value, 0
// when there is none. Writes say false when the key was not as expected.
type register interface {
	get(ctx context.Context, key string) (value int, revision uint64, err error)
	create(ctx context.Context, key string, value int) (revision uint64, ok bool, err error)
	update(ctx context.Context, key string, value int, expect uint64) (revision uint64, ok bool, err error)
	remove(ctx context.Context, key string, expect uint64) (ok bool, err error)
}

type storeRegister struct{ *store.Store }

func (r storeRegister) get(_ context.Context, key string) (int, uint64, error) {
	kv, _, err := r.Get(key)
	if errors.Is(err, store.ErrKeyNotFound) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	value, err := strconv.Atoi(string(kv.Value))
	return value, kv.Revision, err
}

func (r storeRegister) commit(ctx context.Context, w store.Write) (uint64, bool, error) {
	revision, err := r.Commit(ctx, w)
	if errors.As(err, new(*store.ConflictError)) {
		return 0, false, nil
	}
	return revision, err == nil, err
}

func (r storeRegister) create(ctx context.Context, key string, value int) (uint64, bool, error) {
	return r.commit(ctx, store.Write{Key: key, Value: []byte(strconv.Itoa(value))})
}

func (r storeRegister) update(ctx context.Context, key string, value int, expect uint64) (uint64, bool, error) {
	return r.commit(ctx, store.Write{Key: key, Value: []byte(strconv.Itoa(value)), Expect: expect})
}

func (r storeRegister) remove(ctx context.Context, key string, expect uint64) (bool, error) {
	_, ok, err := r.commit(ctx, store.Write{Key: key, Delete: true, Expect: expect})
	return ok, err
}

type apiRegister struct{ apistorage.Interface }

func read(m *corev1.ConfigMap) (value int, revision uint64, err error) {
	if m.ResourceVersion == "" {
		return 0, 0, nil
	}
	value, err1 := strconv.Atoi(m.Data["value"])
	revision, err2 := strconv.ParseUint(m.ResourceVersion, 10, 64)
	return value, revision, errors.Join(err1, err2)
}

func (r apiRegister) get(ctx context.Context, key string) (int, uint64, error) {
	m := &corev1.ConfigMap{}
	if err := r.Get(ctx, "/configmaps/ns"+key, apistorage.GetOptions{IgnoreNotFound: true}, m); err != nil {
		return 0, 0, err
	}
	return read(m)
}

func outcome(m *corev1.ConfigMap, err error) (uint64, bool, error) {
	switch {
	case apistorage.IsExist(err), apistorage.IsNotFound(err), apistorage.IsInvalidObj(err), apistorage.IsConflict(err):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	_, revision, err := read(m)
	return revision, true, err
}

func (r apiRegister) create(ctx context.Context, key string, value int) (uint64, bool, error) {
	out := &corev1.ConfigMap{}
	return outcome(out, r.Create(ctx, "/configmaps/ns"+key, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: key[1:]}, Data: map[string]string{"value": strconv.Itoa(value)}}, out, 0))
}

func only(revision uint64) *apistorage.Preconditions {
	version := fmt.Sprint(revision)
	return &apistorage.Preconditions{ResourceVersion: &version}
}

func (r apiRegister) update(ctx context.Context, key string, value int, expect uint64) (uint64, bool, error) {
	out := &corev1.ConfigMap{}
	return outcome(out, r.GuaranteedUpdate(ctx, "/configmaps/ns"+key, out, false, only(expect),
		apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			obj.(*corev1.ConfigMap).Data = map[string]string{"value": strconv.Itoa(value)}
			return obj, nil
		}), nil))
}

func (r apiRegister) remove(ctx context.Context, key string, expect uint64) (bool, error) {
	out := &corev1.ConfigMap{}
	_, ok, err := outcome(out, r.Delete(ctx, "/configmaps/ns"+key, out, only(expect), apistorage.ValidateAllObjectFunc, nil, apistorage.DeleteOptions{}))
	return ok, err
}

// action and result are what porcupine gets: values by which an expectation was formed stand for their revisions.
type action struct {
	kind, key     string
	value, expect int
}

type result struct {
	ok      bool
	value   int
	unknown bool // the writer was killed before it knew
}

// registerModel is the specification: one register a key, which is empty (0) at first.
var registerModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		keys := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(action).key
			keys[key] = append(keys[key], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range keys {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{0} },
	Step: func(state, input, output any) []any {
		now, a, r := state.(int), input.(action), output.(result)
		applies, next := true, now
		switch a.kind {
		case "get":
			if r.unknown || r.value == now {
				return []any{now}
			}
			return nil
		case "create":
			applies, next = now == 0, a.value
		case "update":
			applies, next = now == a.expect, a.value
		case "delete":
			applies, next = now == a.expect, 0
		}
		switch {
		case r.unknown && applies:
			return []any{now, next}
		case r.unknown:
			return []any{now}
		case r.ok != applies:
			return nil
		case applies:
			return []any{next}
		}
		return []any{now}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}).ToModel()

// drive does random operations until ctx ends or limit is reached, and says what it begins (I) and how it ended (R).
// Numbers are unique for all clients that share next.
func drive(ctx context.Context, r register, client, limit int, next *atomic.Int64, rng *rand.Rand, say func(format string, args ...any)) error {
	type known struct {
		value    int
		revision uint64
	}
	memory := map[string]known{}
	for range limit {
		key := fmt.Sprint("/r", rng.IntN(registers))
		k := memory[key]
		a := action{key: key, value: int(next.Add(1)), expect: k.value}
		switch n := rng.IntN(10); {
		case n < 3:
			a.kind = "get"
		case n < 5 || k.revision == 0:
			a.kind = "create"
		case n < 8:
			a.kind = "update"
		default:
			a.kind = "delete"
		}
		say("I %d %d %s %s %d", a.value, client, a.kind, a.key, a.expect)
		var res result
		var err error
		var after known
		switch a.kind {
		case "get":
			after.value, after.revision, err = r.get(ctx, key)
			res = result{ok: true, value: after.value}
		case "create":
			after.value = a.value
			after.revision, res.ok, err = r.create(ctx, key, a.value)
		case "update":
			after.value = a.value
			after.revision, res.ok, err = r.update(ctx, key, a.value, k.revision)
		case "delete":
			res.ok, err = r.remove(ctx, key, k.revision)
		}
		if err != nil {
			return fmt.Errorf("%+v: %w", a, err)
		}
		if res.ok {
			memory[key] = after
		} else {
			// Another value is there; the next round reads it or fails as well.
			if after.value, after.revision, err = r.get(ctx, key); err != nil {
				return err
			}
			memory[key] = after
		}
		say("R %d %v %d", a.value, res.ok, res.value)
	}
	return nil
}

// history takes reports of drive, each line at a time of its own, to porcupine's form.
type history struct {
	now     int64
	open    map[int]*porcupine.Operation
	done    []porcupine.Operation
	unknown int
}

func (h *history) read(lines []string) error {
	h.open = map[int]*porcupine.Operation{}
	for _, line := range lines {
		h.now++
		var number int
		switch line[0] {
		case 'I':
			op := &porcupine.Operation{Call: h.now}
			var a action
			if _, err := fmt.Sscanf(line, "I %d %d %s %s %d", &number, &op.ClientId, &a.kind, &a.key, &a.expect); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			a.value = number
			op.Input = a
			h.open[number] = op
		case 'R':
			var r result
			if _, err := fmt.Sscanf(line, "R %d %t %d", &number, &r.ok, &r.value); err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			op := h.open[number]
			delete(h.open, number)
			op.Output, op.Return = r, h.now
			h.done = append(h.done, *op)
		}
	}
	// What the kill interrupted happened before the next start, or never.
	h.now++
	for _, op := range h.open {
		op.Output, op.Return = result{unknown: true}, h.now
		h.done = append(h.done, *op)
		h.unknown++
	}
	return nil
}

func (h *history) check(t *testing.T) {
	t.Helper()
	verdict, info := porcupine.CheckOperationsVerbose(registerModel, h.done, 2*time.Minute)
	t.Logf("%d operations on %d registers, %d of them cut off by a kill: %s", len(h.done), registers, h.unknown, verdict)
	if verdict == porcupine.Ok {
		return
	}
	out, err := os.CreateTemp("", "linearizable-*.html")
	if err == nil {
		err = errors.Join(porcupine.Visualize(registerModel, info, out), out.Close())
		t.Errorf("not linearizable, see %s (%v)", out.Name(), err)
	} else {
		t.Errorf("not linearizable")
	}
}

// TestLinearizable: histories of concurrent clients in one process.
func TestLinearizable(t *testing.T) {
	seed := number(t, "CRASH_SEED", uint64(time.Now().UnixNano()))
	t.Logf("CRASH_SEED=%d", seed)
	for _, form := range []string{formStore, formAPI} {
		t.Run(form, func(t *testing.T) {
			st, err := store.Open(config(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			b, err := bus.New(bus.Config{}, st)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- st.Run(ctx) }()
			defer func() {
				stop()
				if err := errors.Join(<-ended, st.Close()); err != nil {
					t.Error(err)
				}
			}()
			r, err := registerOf(form, st, b)
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var lines []string
			say := func(format string, args ...any) {
				line := fmt.Sprintf(format, args...)
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, line)
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					if err := drive(ctx, r, i, 400, &next, rand.New(rand.NewPCG(seed, uint64(i))), say); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			h := &history{}
			if err := h.read(lines); err != nil {
				t.Fatal(err)
			}
			h.check(t)
		})
	}
}

func registerOf(form string, st *store.Store, b *bus.Bus) (register, error) {
	if form == formStore {
		return storeRegister{st}, nil
	}
	s, err := configMaps(st, b)
	return apiRegister{s}, err
}

// TestLinearizableAcrossCrashes: the same, in processes that are killed and restarted on one directory.
func TestLinearizableAcrossCrashes(t *testing.T) {
	seed := number(t, "CRASH_SEED", uint64(time.Now().UnixNano()))
	rounds := number(t, "CRASH_ROUNDS", 10)
	t.Logf("CRASH_SEED=%d CRASH_ROUNDS=%d", seed, rounds)
	for i, form := range []string{formStore, formAPI} {
		t.Run(form, func(t *testing.T) {
			c := &campaign{t: t, form: form + historySuffix, rng: rand.New(rand.NewPCG(seed, uint64(10+i))), model: newModel(), work: t.TempDir()}
			c.next = filepath.Join(c.work, "0")
			if err := os.Mkdir(c.next, 0o700); err != nil {
				t.Fatal(err)
			}
			h := &history{}
			for round := range (rounds + uint64(1-i)) / 2 {
				d, err := newDisk(c.next)
				if err != nil {
					t.Fatal(err)
				}
				c.first = h.now + 1
				lines := c.run(d, 1+c.rng.IntN(250), 20*time.Second, 0)
				if err := h.read(lines); err != nil {
					t.Fatal(err)
				}
				after := filepath.Join(c.work, fmt.Sprint(round+1))
				if err := os.Mkdir(after, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := d.image(after, cut{lose: c.rng.Float64(), tear: 0.2, names: c.rng.IntN(2) == 0}, c.rng); err != nil {
					t.Fatal(err)
				}
				c.next = after
			}
			h.check(t)
		})
	}
}

const historySuffix = "-history"

// writeHistory is the child of TestLinearizableAcrossCrashes.
func writeHistory(ctx context.Context, form string, st *store.Store, b *bus.Bus, report *reporter, seed uint64, first int64) error {
	r, err := registerOf(strings.TrimSuffix(form, historySuffix), st, b)
	if err != nil {
		return err
	}
	var next atomic.Int64
	next.Store(first)
	failed := make(chan error, clients)
	for i := range clients {
		go func() { failed <- drive(ctx, r, i, 1<<30, &next, rand.New(rand.NewPCG(seed, uint64(i))), report.line) }()
	}
	return <-failed
}
