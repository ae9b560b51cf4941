package e2e

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

const zeroDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// TestStartupFaults: each fault of a start is one line that says what, where
// and what to do, an exit code, and nothing else: a correct start on the same
// data directory finds its objects.
func TestStartupFaults(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	first := minimal(t, "", data)
	if err := first.keep(bound(t), "before"); err != nil {
		t.Fatal(err)
	}
	first.stop(t)

	plain := first.Path("configs", "minimal.yaml")
	// edited is the minimal configuration with one change.
	edited := func(t *testing.T, old, new string) string {
		text, err := os.ReadFile(plain)
		if err != nil {
			t.Fatal(err)
		}
		path := write(t, filepath.Join(t.TempDir(), "pintle.yaml"), string(text))
		replace(t, path, old, new)
		return path
	}
	// catalog is a folder with a copy of the classic bundle.
	catalog := func(t *testing.T) (dir string, args []string) {
		dir = t.TempDir()
		copyBundle(t, filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins", "classic"), dir, "classic")
		return filepath.Join(dir, "classic"), []string{"--set", "plugins.directories=[" + dir + "]"}
	}
	tests := []struct {
		name string
		code int
		// make returns the start and what its line has to contain.
		make func(t *testing.T) (faulty, []string)
	}{
		{"no configuration", 2, func(t *testing.T) (faulty, []string) {
			return faulty{config: filepath.Join(t.TempDir(), "absent.yaml")}, []string{"absent.yaml: no such file", "--config"}
		}},
		{"unknown key", 2, func(t *testing.T) (faulty, []string) {
			f := edited(t, "scheduler:", "schedular:")
			return faulty{config: f}, []string{fmt.Sprintf("%s:%d: schedular: unknown key", f, lineOf(t, f, "schedular")), `did you mean "scheduler"?`}
		}},
		{"unknown key of --set", 2, func(*testing.T) (faulty, []string) {
			return faulty{args: []string{"--set", "api.prot=1"}}, []string{"api.prot", "unknown key", `did you mean "api.port"?`}
		}},
		{"bad value", 2, func(t *testing.T) (faulty, []string) {
			f := edited(t, "bindAddress: 127.0.0.1", "bindAddress: 127.0.0.one")
			return faulty{config: f}, []string{fmt.Sprintf("%s:%d: api.bindAddress:", f, lineOf(t, f, "127.0.0.one")), "is not an IP address such as 127.0.0.1"}
		}},
		{"bad value of the environment", 2, func(*testing.T) (faulty, []string) {
			return faulty{env: []string{"PINTLE_STORE_MINFREE=plenty"}}, []string{"PINTLE_STORE_MINFREE", "an amount of bytes such as 64Mi"}
		}},
		{"not YAML", 2, func(t *testing.T) (faulty, []string) {
			f := write(t, filepath.Join(t.TempDir(), "torn.yaml"), "apiVersion: config.pintle.dev/v1alpha1\nkind: [Kernel\n")
			return faulty{config: f}, []string{f + ":", "not YAML"}
		}},
		{"missing bundle", 1, func(t *testing.T) (faulty, []string) {
			return faulty{config: edited(t, "name: classic", "name: absent")}, []string{"plugin bundle absent: no folder absent with a manifest.yaml in ", "build it with make or set plugins.directories"}
		}},
		{"unknown predicate", 2, func(t *testing.T) (faulty, []string) {
			f := edited(t, "PodFitsResources", "PodFitsEverything")
			return faulty{config: f}, []string{fmt.Sprintf("%s:%d: ", f, lineOf(t, f, "PodFitsEverything")), `scheduler profile default-scheduler: no loaded bundle has predicate "PodFitsEverything"; there are: CheckNodeUnschedulable, HostName, `}
		}},
		{"missing artefact", 1, func(t *testing.T) (faulty, []string) {
			dir, args := catalog(t)
			if err := os.Remove(filepath.Join(dir, "classic.wasm")); err != nil {
				t.Fatal(err)
			}
			return faulty{args: args}, []string{"plugin bundle classic: artefact: ", filepath.Join(dir, "classic.wasm"), "build it with make"}
		}},
		{"other digest in the configuration", 1, func(t *testing.T) (faulty, []string) {
			return faulty{config: edited(t, "name: classic", "{name: classic, digest: '"+zeroDigest+"'}")},
				[]string{"plugin bundle classic: ", "classic.wasm has digest sha256:", "want " + zeroDigest, "digest mismatch"}
		}},
		{"other digest of a process", 1, func(t *testing.T) (faulty, []string) {
			return faulty{config: edited(t, "name: classic", "{name: classic, transport: process, digest: '"+zeroDigest+"'}")},
				[]string{"plugin bundle classic: ", "has digest sha256:", "want " + zeroDigest, "digest mismatch"}
		}},
		{"changed artefact", 1, func(t *testing.T) (faulty, []string) {
			dir, args := catalog(t)
			f, err := os.OpenFile(filepath.Join(dir, "classic.wasm"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte{0}); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			return faulty{args: args}, []string{filepath.Join(dir, "classic.wasm") + " has digest sha256:", "digest mismatch; install it again, or build and seal it again if the change was yours"}
		}},
		{"bad manifest", 1, func(t *testing.T) (faulty, []string) {
			dir, args := catalog(t)
			path := filepath.Join(dir, "manifest.yaml")
			replace(t, path, "kind: priority", "kind: priorty")
			return faulty{args: args}, []string{fmt.Sprintf("%s:%d: plugins.", path, lineOf(t, path, "priorty")), `"priorty"; want one of `}
		}},
		{"torn manifest", 1, func(t *testing.T) (faulty, []string) {
			dir, args := catalog(t)
			path := filepath.Join(dir, "manifest.yaml")
			replace(t, path, "plugins:", "plugins: [")
			return faulty{args: args}, []string{path + ":"}
		}},
		{"manifest promises too much", 1, func(t *testing.T) (faulty, []string) {
			dir, args := catalog(t)
			replace(t, filepath.Join(dir, "manifest.yaml"), "name: MaxEBSVolumeCount", "name: Clairvoyance")
			return faulty{args: args}, []string{"plugin bundle classic: ", "predicate Clairvoyance", "does not provide"}
		}},
		{"configuration of a plugin that is not there", 2, func(t *testing.T) (faulty, []string) {
			f := edited(t, "name: classic", "{name: classic, config: {Clairvoyance: {}}}")
			return faulty{config: f}, []string{fmt.Sprintf("%s:%d: plugins.bundles[0].config.Clairvoyance: ", f, lineOf(t, f, "Clairvoyance")), `supported values: "`, `"BalancedResourceAllocation"`}
		}},
		{"process that ends at once", 1, func(t *testing.T) (faulty, []string) {
			program, err := exec.LookPath("false")
			if err != nil {
				skip(t, "this machine has no program false")
			}
			dir, args := catalog(t)
			copyFile(t, program, filepath.Join(dir, "classic"))
			return faulty{args: args, config: edited(t, "name: classic", "{name: classic, transport: process, digest: '"+digestOf(t, program)+"'}")}, []string{"plugin bundle classic: start " + filepath.Join(dir, "classic"), "it ended", "run it by hand to see why"}
		}},
		{"module that is none", 1, func(t *testing.T) (faulty, []string) {
			dir, args := catalog(t)
			path := filepath.Join(dir, "classic.wasm")
			write(t, path, "#!/bin/sh\n")
			return faulty{args: args, config: edited(t, "name: classic", "{name: classic, digest: '"+digestOf(t, path)+"'}")},
				[]string{"plugin bundle classic: ", path + ": malformed WASM module", "build it again"}
		}},
		{"port taken", 1, func(t *testing.T) (faulty, []string) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			_, port, err := net.SplitHostPort(l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			return faulty{args: []string{"--set", "api.port=" + port}}, []string{"port " + port + " of 127.0.0.1", "address already in use", "choose another port, or 0 for a free one"}
		}},
		{"data directory is a file", 1, func(t *testing.T) (faulty, []string) {
			path := write(t, filepath.Join(t.TempDir(), "file"), "")
			return faulty{data: path}, []string{"data directory: ", path, "not a directory", "--data"}
		}},
		{"no permission", 1, func(t *testing.T) (faulty, []string) {
			dir, err := os.MkdirTemp("", "pte")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			f := faulty{data: filepath.Join(dir, "data")}
			if os.Geteuid() == 0 {
				f.credential = &syscall.Credential{Uid: 65534, Gid: 65534}
				// What another user reaches of the repository is not known.
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				f.program, f.config = filepath.Join(dir, "pintle"), filepath.Join(dir, "minimal.yaml")
				copyFile(t, binary(t, "pintle"), f.program)
				copyFile(t, plain, f.config)
			}
			if err := os.Mkdir(f.data, 0o500); err != nil {
				t.Fatal(err)
			}
			return f, []string{"data directory: ", f.data, "permission denied", "--data"}
		}},
		{"damaged authority", 1, func(t *testing.T) (faulty, []string) {
			path := filepath.Join(data, "pki", "ca.crt")
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { write(t, path, string(good)) })
			write(t, path, strings.Replace(string(good), "BEGIN", "END", 1))
			return faulty{}, []string{"cluster CA: " + path, "damaged", "restore the file from a backup"}
		}},
		{"authority without its key", 1, func(t *testing.T) (faulty, []string) {
			path := filepath.Join(data, "pki", "ca.key")
			if err := os.Rename(path, path+".away"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := os.Rename(path+".away", path); err != nil {
					t.Error(err)
				}
			})
			return faulty{}, []string{"cluster CA: ", path}
		}},
		{"damaged store", 1, func(t *testing.T) (faulty, []string) {
			path := filepath.Join(data, "store", "MANIFEST")
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { write(t, path, string(good)) })
			write(t, path, "scribble")
			return faulty{}, []string{filepath.Join(data, "store")}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, words := tt.make(t)
			if f.data == "" {
				f.data = data
			}
			contains(t, fault(t, f, tt.code), words...)
		})
	}
	last := minimal(t, "", data)
	last.kept(t, "before")
	last.stop(t)
}

// TestSecondKernel: one kernel a data directory; the first does not notice.
func TestSecondKernel(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	e := minimal(t, "", data)
	contains(t, fault(t, faulty{data: data}, 1),
		"data directory "+data, "is in use by process "+strconv.Itoa(e.Pid()), "stop it or choose another directory")
	if err := e.keep(bound(t), "after"); err != nil {
		t.Error(err)
	}
	e.kept(t, "after")
	e.stop(t)
}

// TestSignalsDuringStart: SIGTERM stops in order at any point of the start, and
// nothing is lost by it.
func TestSignalsDuringStart(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for _, at := range []string{"pintle: data in", "  store ", "  api ", "  plugins ", "ready in"} {
		t.Run(strings.TrimSpace(at), func(t *testing.T) {
			a := serve(t, faulty{data: data})
			a.until(t, at)
			if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			a.until(t, "stopped")
			if code := a.wait(t); code != 0 {
				t.Errorf("exit code %d", code)
			}
			if lines := a.complaints(); len(lines) > 0 {
				t.Errorf("on standard error:\n%s", strings.Join(lines, "\n"))
			}
		})
	}
	e := minimal(t, "", data)
	if err := e.keep(bound(t), "after"); err != nil {
		t.Fatal(err)
	}
	e.stop(t)
}

// TestSecondInterrupt: a second Ctrl-C ends the kernel at once, whatever it
// waits for; what was acknowledged is there at the next start.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	e := minimal(t, "", data)
	if err := e.keep(bound(t), "acknowledged"); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for ended := false; !ended; {
		_ = e.Signal(os.Interrupt) // it may have ended by now
		select {
		case <-e.Exited():
			ended = true
		case <-tick.C:
		case <-limit:
			t.Fatalf("the kernel goes on %s after interrupts", patience)
		}
	}
	again := minimal(t, "", data)
	again.kept(t, "acknowledged")
	again.stop(t)
}

func digestOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data))
}

// TestNodeStartupFaults: faults that only a node meets, after the API is up.
// They end the kernel with one line, and its containerd with it.
func TestNodeStartupFaults(t *testing.T) {
	t.Parallel()
	needContainers(t)
	network, err := cluster.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	l, err := network.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	repo, err := cluster.Repository()
	if err != nil {
		t.Fatal(err)
	}
	standalone := filepath.Join(repo, "configs", "standalone.yaml")
	tests := []struct {
		name  string
		args  []string
		words []string
	}{
		{"port of the node agent taken", []string{"--set", "node.kubeletPort=" + port}, []string{"node ", port, "address already in use"}},
		{"no such runtime", []string{"--set", "node.kubeletPort=0", "--set", "node.runtime=absent"}, []string{"runtime absent: ", "no loaded bundle has runtime \"absent\"; there are: containerd"}},
		{"no such proxy", []string{"--set", "node.kubeletPort=0", "--set", "node.proxies=[absent]"}, []string{"absent", "there are: coredns, coredns-verified, iptables, ipvs, layer2, networkpolicy, nftables, userspace"}},
		{"no such enforcer of policies", []string{"--set", "node.kubeletPort=0", "--set", "node.networkPolicy=absent"}, []string{"absent", "there are: coredns, coredns-verified, iptables, ipvs, layer2, networkpolicy, nftables, userspace"}},
		{"no such announcer", []string{"--set", "node.kubeletPort=0", "--set", "node.announcer=absent"}, []string{"node.announcer", "absent", "there are: coredns, coredns-verified, iptables, ipvs, layer2, networkpolicy, nftables, userspace"}},
		{"no such DNS", []string{"--set", "node.kubeletPort=0", "--set", "node.dns=absent"}, []string{"absent", "there are: coredns, coredns-verified, iptables, ipvs, layer2, networkpolicy, nftables, userspace"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data, err := os.MkdirTemp("", "pte")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(data)
			contains(t, fault(t, faulty{config: standalone, data: data, args: tt.args, network: network}, 1), tt.words...)
			if left := withArgument(data); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// withArgument lists the living processes whose arguments name a path.
func withArgument(path string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var list []string
	for _, file := range files {
		if args, err := os.ReadFile(file); err == nil && strings.Contains(string(args), path) {
			list = append(list, strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return list
}
