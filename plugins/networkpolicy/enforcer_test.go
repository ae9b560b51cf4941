package networkpolicy

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/networkpolicy/truth"
	"pintle.dev/pintle/plugins/proxies/sysctl"
	"pintle.dev/pintle/sdk/proxy"
)

// paper is a filter that notes what it is given.
type paper struct {
	mu        sync.Mutex
	has       *program.Program // nil: no table
	applied   int
	fail      error
	disturbed bool
	closed    int
}

func (p *paper) Exists() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.has != nil && !p.has.Empty(), nil
}

func (p *paper) Disturbed() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.disturbed, nil
}

func (p *paper) Apply(next *program.Program) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applied++
	if p.fail != nil {
		return p.fail
	}
	p.has, p.disturbed = next, false
	return nil
}

func (p *paper) Remove() error { return p.Apply(&program.Program{}) }

func (p *paper) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed++
	return nil
}

func (p *paper) set(fail error, disturbed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail, p.disturbed = fail, disturbed
}

// passes says whether a connection between two pods would pass now.
func (p *paper) passes(t *testing.T, from, to string) bool {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.has == nil || truth.Passes(t, p.has, truth.Packet{Source: truth.Address(from, program.IP4), Destination: truth.Address(to, program.IP4), Protocol: program.TCP, Port: 80})
}

// world is what the enforcer gets from the API; nil: nothing yet.
type world struct {
	mu      sync.Mutex
	c       *program.Cluster
	bridges []string
}

func (w *world) links() ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bridges, nil
}

func (w *world) connect(bridges ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bridges = bridges
}

func (w *world) get(context.Context) (*program.Cluster, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.c, w.c != nil
}

func (w *world) set(c *program.Cluster) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.c = c
}

var bridgeSwitches = sysctl.BridgeSwitches()

// machine is a tree of switches.
func machine(t *testing.T) (proc, state string) {
	t.Helper()
	proc, state = t.TempDir(), t.TempDir()
	for name, value := range map[string]string{bridgeSwitches[0]: "0\n", bridgeSwitches[1]: "1\n"} {
		file := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return proc, state
}

// begun is an enforcer that runs, with its input and what it does.
func begun(t *testing.T, f *paper, w *world) (*Enforcer, *run) {
	t.Helper()
	proc, state := machine(t)
	e := &Enforcer{proc: proc, open: func() (filter, error) { return f, nil }}
	r, err := e.prepare(proxy.Options{PodCIDRs: []string{"10.244.1.0/24", "fd00:1::/64"}, StateDirectory: state, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.cluster = w.get
	r.links = w.links
	ctx, cancel := context.WithCancel(t.Context())
	e.begin(ctx, cancel, r)
	return e, r
}

const nobody = "spec: {podSelector: {}}"

func settled() {
	time.Sleep(2 * time.Second)
	synctest.Wait()
}

// TestEnforcer: what changes is enforced, what others changed is put right, what fails is
// tried again, and a stop leaves what it shall.
func TestEnforcer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := &paper{}, &world{}
		e, r := begun(t, f, w)
		if e.Status().Ready {
			t.Error("it is ready before it knows anything")
		}
		w.set(truth.World(nobody))
		r.poke()
		settled()
		<-r.first
		if s := e.Status(); !s.Ready || !strings.Contains(s.Message, "1 policies") {
			t.Errorf("status %+v", s)
		}
		if f.passes(t, "y/x", "x/x") || !f.passes(t, "x/x", "y/x") {
			t.Error("the policy is not enforced")
		}
		before := f.applied
		time.Sleep(time.Minute)
		if f.applied != before {
			t.Errorf("nothing happened, and rules were written %d times", f.applied-before)
		}
		f.set(nil, true)
		time.Sleep(2 * r.cfg.check)
		synctest.Wait()
		if f.applied != before+1 {
			t.Errorf("after another's change rules were written %d times, want once", f.applied-before)
		}
		f.set(errors.New("the kernel says no"), false)
		w.set(truth.World())
		r.poke()
		settled()
		if s := e.Status(); s.Ready || !strings.Contains(s.Message, "the kernel says no") || f.closed == 0 {
			t.Errorf("status %+v, closed %d", s, f.closed)
		}
		if f.passes(t, "y/x", "x/x") {
			t.Error("what was enforced is not while a change fails")
		}
		f.set(nil, false)
		settled()
		if s := e.Status(); !s.Ready || !f.passes(t, "y/x", "x/x") {
			t.Errorf("status %+v after the fault", s)
		}
		w.set(truth.World(nobody))
		r.poke()
		settled()
		if err := e.Stop(t.Context(), false); err != nil || f.passes(t, "y/x", "x/x") {
			t.Errorf("a stop without cleanup: %v, and what was forbidden passes: %t", err, f.passes(t, "y/x", "x/x"))
		}
		if err := e.Stop(t.Context(), true); err != nil {
			t.Errorf("a second stop: %v", err)
		}
	})
}

// TestCleanup: a stop with cleanup leaves no rule, and switches as they were, also when
// somebody set them back meanwhile.
func TestCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := &paper{}, &world{c: truth.World(nobody)}
		e, r := begun(t, f, w)
		r.poke()
		settled()
		first := filepath.Join(e.proc, bridgeSwitches[0])
		read := func() string {
			data, err := os.ReadFile(first)
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(data))
		}
		if read() != "1" {
			t.Errorf("bridges show packets to rules: %s", read())
		}
		if err := os.WriteFile(first, []byte("0"), 0o644); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * r.cfg.check)
		synctest.Wait()
		if read() != "1" {
			t.Error("a switch that was set back stays so")
		}
		if err := e.Stop(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if read() != "0" || !f.has.Empty() || f.closed != 1 {
			t.Errorf("switch %s, empty %t, closed %d", read(), f.has.Empty(), f.closed)
		}
	})
}

// TestClosedUntilRead: a node that cannot read policies closes its pods; a table of an
// earlier run stays as it is instead.
func TestClosedUntilRead(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f, w := &paper{}, &world{}
			if earlier {
				f.has = program.Compile(truth.World(nobody))
			}
			e, r := begun(t, f, w)
			time.Sleep(patience / 2)
			synctest.Wait()
			select {
			case <-r.first:
				t.Error("a start ends though nothing is known")
			default:
			}
			settled()
			time.Sleep(patience)
			<-r.first
			synctest.Wait()
			if f.passes(t, "y/x", "x/x") || f.passes(t, "x/x", "y/x") == !earlier {
				t.Errorf("with a table of an earlier run: %t, passes in: %t, out: %t", earlier, f.passes(t, "y/x", "x/x"), f.passes(t, "x/x", "y/x"))
			}
			if e.Status().Ready {
				t.Error("it is ready and knows nothing")
			}
			w.set(truth.World())
			r.poke()
			settled()
			if !f.passes(t, "y/x", "x/x") || !e.Status().Ready {
				t.Error("what is read is not enforced")
			}
			if err := e.Stop(t.Context(), true); err != nil {
				t.Error(err)
			}
		})
	}
}

// onLink says whether pods of one bridge reach each other by addresses of the link.
func (p *paper) onLink(t *testing.T) bool {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return truth.Passes(t, p.has, truth.Packet{Source: netip.MustParseAddr("fe80::1"), Destination: netip.MustParseAddr("fe80::2"), Protocol: program.TCP, Port: 80, Bridge: truth.Bridge})
}

// TestBridgeOfPods: the bridge that the first pod of a node makes is seen soon.
func TestBridgeOfPods(t *testing.T) {
	for _, known := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f, w := &paper{}, &world{}
			if known {
				w.set(truth.World(nobody))
			}
			e, r := begun(t, f, w)
			r.poke()
			time.Sleep(patience)
			settled()
			w.connect(truth.Bridge)
			time.Sleep(2 * r.cfg.check)
			settled()
			if f.onLink(t) {
				t.Errorf("known %t: pods reach each other by addresses of the link", known)
			}
			if err := e.Stop(t.Context(), true); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestClosedFails: a start does not end well while the node is neither closed nor are its
// policies enforced, and closing is tried again. What closes it is put right.
func TestClosedFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := &paper{}, &world{}
		f.set(errors.New("the kernel says no"), false)
		e, r := begun(t, f, w)
		time.Sleep(patience + 3*again)
		synctest.Wait()
		select {
		case <-r.first:
			t.Error("a start ends though the node is open")
		default:
		}
		if s := e.Status(); s.Ready || !strings.Contains(s.Message, "the kernel says no") {
			t.Errorf("status %+v", s)
		}
		f.set(nil, false)
		time.Sleep(2 * again)
		<-r.first
		if f.passes(t, "y/x", "x/x") {
			t.Error("the node is open")
		}
		before := f.applied
		f.set(nil, true)
		time.Sleep(2 * r.cfg.check)
		synctest.Wait()
		if f.applied != before+1 {
			t.Errorf("what closes the node was deleted and written %d times, want once", f.applied-before)
		}
		if err := e.Stop(t.Context(), true); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f, w := &paper{}, &world{}
		f.set(errors.New("the kernel says no"), false)
		e, r := begun(t, f, w)
		if err := e.await(t.Context(), r); err == nil || !strings.Contains(err.Error(), "the kernel says no") {
			t.Errorf("a start that closes nothing: %v", err)
		}
		<-r.done
	})
}

// TestStopInTwo: a stop that runs out of time is finished by the next one.
func TestStopInTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := &paper{}, &world{c: truth.World(nobody)}
		e, r := begun(t, f, w)
		free := make(chan struct{})
		r.cluster = func(context.Context) (*program.Cluster, bool) {
			<-free
			return truth.World(nobody), true
		}
		r.poke()
		settled()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := e.Stop(ctx, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a stop of what hangs: %v", err)
		}
		close(free)
		if err := e.Stop(t.Context(), true); err != nil || f.has == nil || !f.has.Empty() || f.closed != 1 {
			t.Errorf("the second stop: %v, table %v, closed %d", err, f.has, f.closed)
		}
	})
}

// TestSwitchFails: what is wrong with a switch stays said when a change of rules succeeds.
func TestSwitchFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := &paper{}, &world{c: truth.World(nobody)}
		e, r := begun(t, f, w)
		r.poke()
		settled()
		first := filepath.Join(e.proc, bridgeSwitches[0])
		if err := os.Rename(first, first+".gone"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * r.cfg.check)
		w.set(truth.World())
		r.poke()
		settled()
		if s := e.Status(); s.Ready || !strings.Contains(s.Message, "bridges") || !strings.Contains(s.Message, "0 policies") {
			t.Errorf("status %+v", s)
		}
		if err := os.Rename(first+".gone", first); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * r.cfg.check)
		synctest.Wait()
		if s := e.Status(); !s.Ready {
			t.Errorf("status %+v after the fault", s)
		}
		if err := e.Stop(t.Context(), true); err != nil {
			t.Error(err)
		}
	})
}

// TestFlapping: changes without end are gathered.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, w := &paper{}, &world{c: truth.World(nobody)}
		e, r := begun(t, f, w)
		for range 1000 {
			r.poke()
			time.Sleep(time.Millisecond)
		}
		settled()
		if f.applied > 1000/int(settle/time.Millisecond)+2 {
			t.Errorf("a thousand changes in a second are %d syncs", f.applied)
		}
		if err := e.Stop(t.Context(), true); err != nil {
			t.Error(err)
		}
	})
}

// TestRefusals: what cannot work is said at the start.
func TestRefusals(t *testing.T) {
	proc, state := machine(t)
	e := &Enforcer{proc: proc, open: func() (filter, error) { return nil, errors.New("no nf_tables") }}
	for text, o := range map[string]proxy.Options{
		"no way to the API": {},
		"unknown field":     {APISocket: "s", Config: []byte(`{"interval": "1s"}`)},
		"want a duration":   {APISocket: "s", Config: []byte(`{"checkInterval": "1ms"}`)},
		"range of pods":     {APISocket: "s", PodCIDRs: []string{"everywhere"}},
		"no nf_tables":      {APISocket: "s", StateDirectory: state},
	} {
		if err := e.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: %v, want %q", o, err, text)
		}
	}
	if err := e.Probe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no nf_tables") {
		t.Errorf("probe: %v", err)
	}
	if err := (&Enforcer{proc: t.TempDir()}).Probe(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "modprobe br_netfilter") {
		t.Errorf("probe without br_netfilter: %v", err)
	}
	if err := New().Apply(t.Context(), &proxy.Diff{}); err == nil {
		t.Error("it takes services")
	}
	if err := New().Stop(t.Context(), true); err != nil {
		t.Errorf("a stop of what never started: %v", err)
	}
}

// TestSwitchesFile: what somebody wrote into the file of remembered values sets no other switch.
func TestSwitchesFile(t *testing.T) {
	proc, state := machine(t)
	other := filepath.Join(proc, "net/other")
	for file, text := range map[string]string{other: "7", filepath.Join(state, sysctl.BridgesFile): `{"net/other": "8", "../escape": "9", "` + bridgeSwitches[1] + `": "0"}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (sysctl.Bridges{Proc: proc, StateDirectory: state}).Restore(); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(other); err != nil || string(data) != "7" {
		t.Errorf("%q, %v", data, err)
	}
	if data, err := os.ReadFile(filepath.Join(proc, bridgeSwitches[1])); err != nil || string(data) != "0" {
		t.Errorf("%q, %v", data, err)
	}
}

// TestRanges: the ranges of a node are masked.
func TestRanges(t *testing.T) {
	proc, state := machine(t)
	e := &Enforcer{proc: proc, open: func() (filter, error) { return &paper{}, nil }}
	r, err := e.prepare(proxy.Options{PodCIDRs: []string{"10.244.1.7/24"}, StateDirectory: state, Logger: slog.New(slog.DiscardHandler)})
	if err != nil || r.ranges[0] != netip.MustParsePrefix("10.244.1.0/24") {
		t.Errorf("%v, %v", r.ranges, err)
	}
}
