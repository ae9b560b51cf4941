package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

const (
	// partLeast is how many tests the part has: one that disappears is noticed.
	partLeast = 87
	// partProcs is how many run at a time beside the other end-to-end tests.
	partProcs = 4
)

// notInPart are tests of the part's packages that make test leaves out, because of how
// long they take.
var notInPart = []string{
	"[sig-auth] ServiceAccounts ServiceAccountIssuerDiscovery should support OIDC discovery of service account issuer [Conformance]", // waits for half a minute
}

// partImages are those of images() that the part needs: they hold agnhost and busybox.
func partImages() []image {
	return slices.DeleteFunc(images("small"), func(i image) bool {
		return slices.ContainsFunc(i.layers, func(layer string) bool { return !slices.Contains([]string{"small", "agnhost", "pause"}, layer) })
	})
}

// buildPart builds the programs of the part from the nested module, and returns ginkgo,
// the tests and agnhost.
func buildPart(ctx context.Context, t *testing.T, bin string) (ginkgo, tester, agnhost string) {
	t.Helper()
	out := filepath.Join(bin, "e2e")
	ginkgo, tester, agnhost = filepath.Join(out, "ginkgo"), filepath.Join(out, "part.test"), filepath.Join(out, "agnhost")
	for _, args := range [][]string{
		{"test", "-c", "-ldflags=-s -w", "-o", tester, "./part"},
		{"build", "-ldflags=-s -w", "-o", agnhost, "k8s.io/kubernetes/test/images/agnhost"},
		{"build", "-ldflags=-s -w", "-o", ginkgo, "github.com/onsi/ginkgo/v2/ginkgo"},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = "suite", append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, text)
		}
	}
	return ginkgo, tester, agnhost
}

// makePartImages writes the images of the part into a folder, without asking for
// anything of the network.
func makePartImages(ctx context.Context, bin, agnhost, busybox, dir, work string) error {
	return errors.Join(
		os.MkdirAll(dir, 0o755),
		install(agnhost, filepath.Join(work, "agnhost/agnhost"), 0o755),
		install(programs(bin)["pause/pause"], filepath.Join(work, "pause/pause"), 0o755),
		skeleton(ctx, busybox, filepath.Join(work, "small")),
		makeAgnhost(ctx, agnhost, "small", work),
		writeImages(bin, dir, work, partImages()))
}

// TestPart runs the part of Kubernetes' conformance suite that fits into make test.
func TestPart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("containers need root")
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		t.Skip("the tools of iptables, which close the network of the tests, are not installed")
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("images of the tests need a busybox that is linked statically; install busybox-static")
	}
	if network, err := cluster.NewNetwork(); err != nil {
		t.Skip("this machine gives no network namespaces: " + err.Error())
	} else if err := network.Close(); err != nil {
		t.Fatal(err)
	}
	bin, err := cluster.Bin()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	s := &suite{options: options{out: t.TempDir(), procs: partProcs, limit: 20 * time.Minute}}
	var agnhost string
	s.ginkgo, s.tester, agnhost = buildPart(t.Context(), t, bin)
	t.Logf("built in %s", time.Since(began).Round(time.Second))
	expected, err := readList("passing.txt")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := s.tests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tests = slices.DeleteFunc(tests, func(name string) bool {
		return strings.Contains(name, "[Serial]") || !expected.passes(name) || slices.Contains(notInPart, name)
	})
	if len(tests) < partLeast {
		t.Fatalf("the part has %d tests; want %d", len(tests), partLeast)
	}
	images := filepath.Join(s.out, "images")
	if err := makePartImages(t.Context(), bin, agnhost, busybox, images, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if err := s.start(t.Context(), bin, images, 1); err != nil {
		t.Fatal(err)
	}
	r := newResults(tests)
	began = time.Now()
	err = s.run(t.Context(), tests, "", r)
	t.Logf("%d tests in %s", len(tests), time.Since(began).Round(time.Second))
	if err := errors.Join(err, s.stop()); err != nil {
		t.Errorf("%v\n%s", err, s.logEnd(stages[0].name))
		return
	}
	if err := r.judge(expected, false); err != nil {
		t.Errorf("%v\n%s", err, s.logEnd(stages[0].name))
	}
}

// logEnd is the end of a stage's log.
func (s *suite) logEnd(stage string) string {
	log, err := os.ReadFile(filepath.Join(s.out, stage+".log"))
	if err != nil {
		return err.Error()
	}
	return "the log ends with:\n" + string(log[max(0, len(log)-20000):])
}
