package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// smallDisk mounts a file system of a size at a folder of the test's own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "a small disk needs root to be mounted")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("pintle-e2e", dir, "tmpfs", 0, "mode=700,size="+size); err != nil {
		skip(t, "this machine mounts no tmpfs: "+err.Error())
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill takes room on a disk until less than keep bytes are free; the returned
// function gives it back.
func fill(t *testing.T, dir string, keep uint64) (free func()) {
	t.Helper()
	f, err := os.CreateTemp(dir, "ballast")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st syscall.Statfs_t
	for block := make([]byte, 64<<10); ; {
		if err := syscall.Statfs(dir, &st); err != nil {
			t.Fatal(err)
		}
		if st.Bavail*uint64(st.Bsize) <= keep {
			break
		}
		if _, err := f.Write(block); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				break
			}
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(f.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFullDisk: on a full disk writes fail with a 5xx that names it, reads and
// watches go on, deletes still make room, and writes come back with the room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "256m")
	data := filepath.Join(disk, "data")
	const reserve = 32 << 20
	e := minimal(t, "", data, "store.minFree=32Mi")
	if err := e.keep(bound(t), "before"); err != nil {
		t.Fatal(err)
	}
	if err := e.keep(bound(t), "victim"); err != nil {
		t.Fatal(err)
	}
	watch, err := e.client.CoreV1().ConfigMaps("default").Watch(bound(t), metav1.ListOptions{FieldSelector: "metadata.name=after"})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()

	free := fill(t, disk, reserve*3/4)
	err = e.keep(bound(t), "refused")
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code < 500 {
		t.Fatalf("a write on a full disk: %v, want a 5xx", err)
	}
	contains(t, err.Error(), "no space left for data directory", data, "free some or move it")
	if out := e.try(t, "create", "configmap", "by-hand"); out.err == nil || !strings.Contains(out.stderr, "no space left for data directory "+data) {
		t.Errorf("kubectl create on a full disk: %v %s", out.err, out.stderr)
	}
	e.kept(t, "before")
	if err := e.client.CoreV1().ConfigMaps("default").Delete(bound(t), "victim", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a delete, which makes room: %v", err)
	}

	// Really nothing left: what the reserve is for is taken too.
	freeAll := fill(t, disk, 0)
	if err := e.keep(bound(t), "refused-too"); !errors.As(err, &status) || status.Status().Code < 500 {
		t.Errorf("a write with no byte left: %v, want a 5xx", err)
	}
	e.kept(t, "before")
	freeAll()
	free()

	eventually(t, func(ctx context.Context) error { return e.keep(ctx, "after") })
	select {
	case ev, ok := <-watch.ResultChan():
		if !ok {
			t.Error("the watch ended on the full disk")
		} else if m, err := meta.Accessor(ev.Object); err != nil || m.GetName() != "after" {
			t.Errorf("the watch says %v", ev)
		}
	case <-bound(t).Done():
		t.Error("the watch does not see the write after the full disk")
	}
	e.stop(t)

	t.Run("start", func(t *testing.T) {
		free := fill(t, disk, 1<<20)
		line := fault(t, faulty{data: data, args: []string{"--set", "store.minFree=32Mi"}}, 1)
		contains(t, line, "no space left for data directory "+data, "free some or move it")
		free()
	})
	t.Run("start with room to open the store alone", func(t *testing.T) {
		free := fill(t, disk, 16<<20)
		a := serve(t, faulty{data: data, args: []string{"--set", "store.minFree=32Mi"}})
		if code := a.wait(t); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		// Others may complain of the same before the kernel gives up.
		for _, line := range a.complaints() {
			contains(t, line, "no space left for data directory "+data, "free some or move it")
		}
		if n := len(a.complaints()); n < 1 || n > 3 { // the store, a part, the kernel
			t.Errorf("%d lines on standard error:\n%s", n, a.stderr.String())
		}
		free()
	})
	again := minimal(t, "", data, "store.minFree=32Mi")
	again.kept(t, "before", "after")
	again.stop(t)
}

// TestDiskFilledByTheStore: a kernel whose own objects filled its disk starts, deletes, also what ends in steps, and takes
// writes again by itself within a minute of deletes that leave no file of the value log to garbage alone.
func TestDiskFilledByTheStore(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "260m")
	data := filepath.Join(disk, "data")
	e := minimal(t, "", data)
	maps := func() typedcorev1.ConfigMapInterface { return e.client.CoreV1().ConfigMaps("default") }
	if _, err := maps().Create(bound(t), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "held", Finalizers: []string{"example.com/held"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.client.CoreV1().Pods("default").Create(bound(t), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bound"},
		Spec:       corev1.PodSpec{NodeName: "nowhere", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 900<<10)
	write := func(ctx context.Context, i int) error {
		_, err := maps().Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("large-", i)}, Data: map[string]string{"large": large},
		}, metav1.CreateOptions{})
		return err
	}
	n := 0
	for ; ; n++ {
		if err := write(bound(t), n); err != nil {
			contains(t, err.Error(), "no space left for data directory", data)
			break
		}
	}
	// Full as it is, the kernel starts.
	e.stop(t)
	e = minimal(t, "", data)

	// What has a finalizer or a grace period ends in two writes.
	if err := maps().Delete(bound(t), "held", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := maps().Patch(bound(t), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := maps().Get(bound(t), "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what was held: %v", err)
	}
	grace := int64(30)
	if err := e.client.CoreV1().Pods("default").Delete(bound(t), "bound", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Error(err)
	}
	for i := 0; i < n; i += 3 {
		if err := maps().Delete(bound(t), fmt.Sprint("large-", i), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n / 6 {
		eventually(t, func(ctx context.Context) error { return write(ctx, n+i) })
	}
	out, errs, code := storeCommand(t, "compact", "--data", data, "--revision", "10")
	if code != 0 {
		t.Errorf("pintle store compact: %d %s", code, errs)
	}
	contains(t, out, "compacted to revision", "were given back to the disk")
	e.stop(t)
}

// TestReadOnlyDisk: a disk that turns read-only, as a failing one does, refuses
// writes, and a start, by name.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "256m")
	data := filepath.Join(disk, "data")
	e := minimal(t, "", data, "store.minFree=1Mi")
	if err := e.keep(bound(t), "before"); err != nil {
		t.Fatal(err)
	}
	e.stop(t)
	remount := func(flags uintptr) {
		t.Helper()
		eventually(t, func(context.Context) error {
			if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|flags, ""); err != nil {
				return fmt.Errorf("remount %s: %w", disk, err)
			}
			return nil
		})
	}
	remount(syscall.MS_RDONLY)
	contains(t, fault(t, faulty{data: data}, 1), data, "read-only file system")
	contains(t, fault(t, faulty{data: filepath.Join(disk, "other")}, 1), "data directory: ", filepath.Join(disk, "other"), "read-only file system", "choose another one with --data")
	remount(0)
	again := minimal(t, "", data, "store.minFree=1Mi")
	again.kept(t, "before")
	again.stop(t)
}

// TestFault: a page of a mapped file for which there is no room is a fault on a
// goroutine of the database, which nobody can catch. With the watch over free
// space as good as switched off, the kernel ends by it: in one line that names
// the cause, with the exit code of a failure, and the next start serves.
func TestFault(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "256m")
	data := filepath.Join(disk, "data")
	e := minimal(t, "", data, "store.minFree=1")
	if err := e.keep(bound(t), "before"); err != nil {
		t.Fatal(err)
	}
	free := fill(t, disk, 256<<10)
	large := strings.Repeat("x", 900<<10)
	_, err := e.client.CoreV1().ConfigMaps("default").Create(bound(t), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "large"}, Data: map[string]string{"large": large},
	}, metav1.CreateOptions{})
	if err == nil {
		t.Fatal("a write for which there is no room was acknowledged")
	}
	select {
	case <-e.Exited():
	case <-bound(t).Done():
		t.Fatal("the kernel goes on")
	}
	var exit *exec.ExitError
	if !errors.As(e.Err(), &exit) || exit.ExitCode() != 1 {
		t.Errorf("the kernel ended with %v, want exit code 1", e.Err())
	}
	log := e.Log(1000)
	if strings.Contains(log, "goroutine ") {
		t.Errorf("the log holds a trace:\n%.2000s", log)
	}
	lines := strings.Split(strings.TrimSpace(log), "\n")
	file := filepath.Join(data, "store", "FAULT")
	contains(t, lines[len(lines)-1], "the kernel stopped by a fault: data directory "+filepath.Join(data, "store"), "SIGBUS", "KiB left",
		"free some or move it, and start again", "everything acknowledged is kept", "the trace is in "+file)
	trace, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(trace), "[signal SIGBUS", "goroutine ", "dgraph-io/badger")

	free()
	again := minimal(t, "", data, "store.minFree=1")
	again.kept(t, "before")
	contains(t, again.Log(1000), "the last run ended by a fault", "SIGBUS")
	if err := again.keep(bound(t), "after"); err != nil {
		t.Error(err)
	}
	again.stop(t)
	if _, err := os.Stat(file + ".former"); err != nil {
		t.Errorf("the trace is gone: %v", err)
	}
}

// TestGoroutinesOnRequest: whoever asks for the goroutines of a kernel gets them.
func TestGoroutinesOnRequest(t *testing.T) {
	t.Parallel()
	a := serve(t, faulty{data: filepath.Join(t.TempDir(), "data")})
	a.until(t, "ready in ")
	if err := a.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if code := a.wait(t); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
	contains(t, a.stderr.String(), "SIGQUIT: quit", "goroutine 1 ", "kernel.(*Kernel).Run")
}
