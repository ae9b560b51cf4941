package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/e2e/cluster"
)

// ledger is what one writer knows of its ConfigMap: what was acknowledged, and
// what it asked for when the kernel was killed, which may have happened or not.
type ledger struct {
	name         string
	acknowledged string // value, or "" for deleted
	asked        string
	undecided    bool
}

// write changes the ConfigMap until the kernel is gone: it is created, updated
// some times and deleted, over and over.
func (l *ledger) write(ctx context.Context, e *env, round int) {
	api := e.client.CoreV1().ConfigMaps("default")
	// What the crash before left undecided is decided now.
	if now, err := api.Get(ctx, l.name, metav1.GetOptions{}); err == nil {
		l.acknowledged = now.Data["value"]
	} else {
		l.acknowledged = ""
	}
	for i := 0; ctx.Err() == nil; i++ {
		l.asked, l.undecided = fmt.Sprintf("%d-%d", round, i), true
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: l.name}, Data: map[string]string{"value": l.asked}}
		var err error
		switch {
		case l.acknowledged == "":
			_, err = api.Create(ctx, m, metav1.CreateOptions{})
		case i%5 == 4:
			l.asked = ""
			err = api.Delete(ctx, l.name, metav1.DeleteOptions{})
		default:
			_, err = api.Update(ctx, m, metav1.UpdateOptions{})
		}
		if err != nil {
			return
		}
		l.acknowledged, l.undecided = l.asked, false
	}
}

// check compares the ledger with what a kernel has.
func (l *ledger) check(have map[string]string) error {
	value := have[l.name]
	if value == l.acknowledged || l.undecided && value == l.asked {
		return nil
	}
	return fmt.Errorf("%s is %q; acknowledged was %q, asked for %q (undecided %v)", l.name, value, l.acknowledged, l.asked, l.undecided)
}

// TestCrashes kills the kernel again and again while clients write: each time
// everything acknowledged is there, and nothing that nobody asked for; a watch
// goes on from the revision where the crash cut it off.
func TestCrashes(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	ledgers := make([]*ledger, 16)
	for i := range ledgers {
		ledgers[i] = &ledger{name: "ledger-" + strconv.Itoa(i)}
	}
	for round := range 5 {
		e := minimal(t, "", data)
		ctx, cancel := context.WithCancel(t.Context())
		from, err := e.client.CoreV1().ConfigMaps("default").List(bound(t), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		watch, err := e.client.CoreV1().ConfigMaps("default").Watch(bound(t), metav1.ListOptions{ResourceVersion: from.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		var writers sync.WaitGroup
		for _, l := range ledgers {
			writers.Go(func() { l.write(ctx, e, round) })
		}
		// The crash comes in the middle of the writes, after some dozens.
		last := from.ResourceVersion
		for seen := 0; seen < 100; seen++ {
			ev, ok := <-watch.ResultChan()
			if !ok {
				t.Fatal("the watch ended before the crash")
			}
			if m, ok := ev.Object.(*corev1.ConfigMap); ok {
				last = m.ResourceVersion
			}
		}
		e.Kill()
		cancel()
		writers.Wait()

		again := minimal(t, "", data)
		list, err := again.client.CoreV1().ConfigMaps("default").List(bound(t), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]string{}
		for _, m := range list.Items {
			have[m.Name] = m.Data["value"]
		}
		for _, l := range ledgers {
			if err := l.check(have); err != nil {
				t.Errorf("after crash %d: %v", round, err)
			}
		}
		// The history since the last event seen leads to what there is.
		replay, err := again.client.CoreV1().ConfigMaps("default").Watch(bound(t), metav1.ListOptions{ResourceVersion: last, AllowWatchBookmarks: true})
		if err != nil {
			t.Fatalf("watch from revision %s, before the crash: %v", last, err)
		}
		if _, err := again.client.CoreV1().ConfigMaps("default").Create(bound(t), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "end-" + strconv.Itoa(round)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for end := false; !end; {
			ev, ok := <-replay.ResultChan()
			if !ok {
				t.Fatal("the watch over the crash ended")
			}
			if m, isMap := ev.Object.(*corev1.ConfigMap); !isMap {
				t.Fatalf("the watch over the crash says %v", ev)
			} else {
				end = m.Name == "end-"+strconv.Itoa(round)
			}
		}
		replay.Stop()
		if round == 4 {
			again.stop(t)
		} else {
			again.Kill()
		}
	}
}

// TestPluginProcessHangs stops the process of the classic set with SIGSTOP, so
// that it neither ends nor answers: it is replaced, and placing goes on.
func TestPluginProcessHangs(t *testing.T) {
	t.Parallel()
	repo := filepath.Dir(filepath.Dir(binary(t, "pintle")))
	config := filepath.Join(t.TempDir(), "pintle.yaml")
	copyFile(t, filepath.Join(repo, "configs", "minimal.yaml"), config)
	replace(t, config, "name: classic", "{name: classic, transport: process}")
	e := minimal(t, config, filepath.Join(t.TempDir(), "data"))
	e.placer(t)
	var pid int
	eventually(t, func(ctx context.Context) (err error) {
		var state string
		if pid, state, err = e.pluginPid(ctx, t, "HostName"); err == nil && (pid == 0 || state != "Ready") {
			err = fmt.Errorf("the classic set is %s with pid %d", state, pid)
		}
		return err
	})
	e.ask(t, "before", "")
	e.placed(t, "before")
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	e.ask(t, "after", "")
	e.placed(t, "after")
	eventually(t, func(ctx context.Context) error {
		now, state, err := e.pluginPid(ctx, t, "HostName")
		if err == nil && (now == pid || state != "Ready") {
			err = fmt.Errorf("the classic set is %s with pid %d", state, now)
		}
		return err
	})
	if left := cluster.Processes(e.Pid(), e.Data); len(left) != 2 {
		t.Errorf("want the kernel and one plugin process, got %q", left)
	}
	e.stop(t)
}
