package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/e2e/vm/orders"
)

// TestRead: the status is the one that the first process wrote, whatever a program prints.
func TestRead(t *testing.T) {
	o := orders.Orders{Word: "WORD"}
	for name, tc := range map[string]struct {
		said, passed string
		want         reading
	}{
		"nothing":             {"", "", reading{}},
		"no kernel":           {"SeaBIOS\r\nWORD 0\r\n", "", reading{}},
		"passed":              {"x\r\n" + orders.Alive + "\r\nok\r\n\r\nWORD 0\r\n", "ok\r\n\r\n", reading{true, true, 0}},
		"failed":              {orders.Alive + "\nWORD 7\n", "", reading{true, true, 7}},
		"ended in the middle": {orders.Alive + "\nok", "ok", reading{true, false, 0}},
		"another's words":     {orders.Alive + "\nPASS 0\nWORDS 0\nWORD\nx WORD 0\n", "PASS 0\nWORDS 0\nx WORD 0\n", reading{true, false, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var passed bytes.Buffer
			calls := 0
			got := read(strings.NewReader(tc.said), o, &passed, func() { calls++ })
			if got != tc.want || passed.String() != tc.passed {
				t.Errorf("got %+v and %q, want %+v and %q", got, passed.String(), tc.want, tc.passed)
			}
			if (calls == 1) != tc.want.alive {
				t.Errorf("told %d times that the kernel runs", calls)
			}
		})
	}
}

// TestWhyNot: KVM is tried where the device opens and the processor helps.
func TestWhyNot(t *testing.T) {
	dir := t.TempDir()
	dev, modules := filepath.Join(dir, "kvm"), filepath.Join(dir, "module")
	is := func(want string) {
		t.Helper()
		if got := whyNot(dev, modules); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	is("no such file")
	if err := errors.Join(os.WriteFile(dev, nil, 0o600), os.MkdirAll(filepath.Join(modules, "kvm_pvm"), 0o700)); err != nil {
		t.Fatal(err)
	}
	is("not by the processor")
	if err := os.Mkdir(filepath.Join(modules, "kvm_amd"), 0o700); err != nil {
		t.Fatal(err)
	}
	is("")
}

// TestMachine: it gets no network, writes nothing of this machine, and its kernel's messages are
// apart from the output.
func TestMachine(t *testing.T) {
	args := machine{image: "k", initial: "i", messages: "m", memory: 7}.args(byTCG)
	text := " " + strings.Join(args, " ") + " "
	for _, want := range []string{" -nodefaults ", " -no-reboot ", ",path=/,", ",readonly=on,", " -serial file:m -serial stdio ", " -m 7 "} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-net") || strings.HasPrefix(a, "-nic") }) {
		t.Errorf("a network: %v", args)
	}
}

// TestBound: a machine that never says that it runs is ended, and only it, and the other way is
// taken.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	ended := filepath.Join(dir, "ended")
	script := "#!/bin/sh\nexec sleep 1000\n"
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	m := machine{messages: ended, out: &bytes.Buffer{}, log: &bytes.Buffer{}}
	_, err := m.boot(t.Context(), orders.Orders{Limit: time.Hour}, byKVM, time.Millisecond)
	if !errors.Is(err, errNoBoot) {
		t.Errorf("got %v", err)
	}
	script = "#!/bin/sh\necho '" + orders.Alive + "'\necho WORD 3\nexec sleep 1000\n"
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m.out = ender{cancel}
	script = "#!/bin/sh\necho '" + orders.Alive + "'\necho begun\nexec sleep 1000\n"
	if err := os.WriteFile(filepath.Join(dir, "qemu-system-x86_64"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := m.boot(ctx, orders.Orders{Limit: time.Hour}, byTCG, time.Hour); err == nil || errors.Is(err, errNoBoot) || !strings.Contains(err.Error(), "without a status") {
		t.Errorf("interrupted in the middle: %v", err)
	}
}

// ender ends a run with its first output.
type ender struct{ cancel func() }

func (e ender) Write(p []byte) (int, error) { e.cancel(); return len(p), nil }

// TestSkips counts the tests that say so, and passes everything on.
func TestSkips(t *testing.T) {
	var out bytes.Buffer
	s := &skips{to: &out}
	for _, line := range []string{"--- SKIP: TestA (0.00s)\n", "    --- SKIP: TestA/b (0.00s)\r\n", "--- PASS: TestC\n", "x --- SKIP: no\n"} {
		if _, err := s.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if s.n != 2 || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%d are skipped of %q", s.n, out.String())
	}
}
