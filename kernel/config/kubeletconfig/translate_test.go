package kubeletconfig

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"pintle.dev/pintle/kernel/config"
)

// TestRulesAreComplete: each field of upstream's type has its rule, and no other name has one.
func TestRulesAreComplete(t *testing.T) {
	fields := map[string]bool{"apiVersion": true, "kind": true}
	typ := reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]()
	for i := range typ.NumField() {
		if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); name != "" {
			fields[name] = true
		}
	}
	for name := range fields {
		r, ok := rules[name]
		switch {
		case !ok:
			t.Errorf("field %s has no rule", name)
		case name == "apiVersion" || name == "kind":
		case r.note != "" && r.fault != "":
			t.Errorf("field %s has a note and a fault", name)
		case r.note == "" && r.fault == "" && !known(r.key):
			t.Errorf("field %s has neither a key nor a word: %q", name, r.key)
		}
	}
	for name := range rules {
		if !fields[name] {
			t.Errorf("the rule %s has no field", name)
		}
	}
}

func load(t *testing.T, text []byte) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{File: file})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

func TestTranslate(t *testing.T) {
	data, err := os.ReadFile("testdata/kubelet.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Translate("kubelet.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	var notes []string
	for _, n := range tr.Notes {
		notes = append(notes, n.Key)
		if n.Line == 0 {
			t.Errorf("%v has no line", n)
		}
	}
	if want := "authentication authorization cgroupDriver containerRuntimeEndpoint"; strings.Join(notes, " ") != want {
		t.Errorf("notes about %v, want %s", notes, want)
	}
	existing := "# mine\napiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\nnode:\n  enabled: true # yes\n  runtime: containerd\n  kubeletPort: 0\n"
	into, err := tr.Into("mine.yaml", []byte(existing))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(into); !strings.Contains(text, "# mine") || !strings.Contains(text, "enabled: true # yes") {
		t.Errorf("comments are gone:\n%s", text)
	}
	alone, err := tr.YAML()
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default().Node
	want.ClusterDNS, want.ClusterDomain, want.ResolvConf = []string{"10.96.0.10"}, "cluster.local", "/run/systemd/resolve/resolv.conf"
	want.CrashLoopBackOff.MaxContainerRestartPeriod = 30 * time.Second
	want.EvictionHard = map[string]string{"memory.available": "200Mi", "nodefs.available": "5%"}
	want.ImageGCHigh, want.ImageGCLow, want.ContainerLogMaxSize = 90, 70, 50<<20
	want.KubeReserved = map[string]string{"cpu": "200m", "memory": "500Mi", "pid": "2000"}
	want.SystemReserved = map[string]string{"memory": "256Mi"}
	want.MaxParallelImagePulls, want.SerializeImagePulls, want.KubeletPort = 4, false, 10255
	want.RegisterWithTaints = []config.Taint{{Key: "dedicated", Value: "db", Effect: "NoSchedule"}}
	if got := load(t, alone).Node; !reflect.DeepEqual(got, want) {
		t.Errorf("alone: %+v\nwant %+v", got, want)
	}
	want.Enabled, want.Runtime = true, "containerd"
	if got := load(t, into).Node; !reflect.DeepEqual(got, want) {
		t.Errorf("into: %+v\nwant %+v", got, want)
	}
}

func TestFaults(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "k:1: is empty; want kind: KubeletConfiguration"},
		"other kind":       {"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: Pod\n", "k:2: kind: want KubeletConfiguration"},
		"unknown":          {head + "clusterDomian: x\n", "k:3: clusterDomian: unknown field"},
		"wrong type":       {head + "maxPods: many\n", "cannot unmarshal"},
		"not supported":    {head + "staticPodPath: /etc/kubernetes/manifests\n", "k:3: staticPodPath: not supported: static pods are not there"},
		"manager":          {head + "cpuManagerPolicy: static\n", "k:3: cpuManagerPolicy: not supported"},
		"swap":             {head + "memorySwap: {swapBehavior: LimitedSwap}\n", "k:3: memorySwap: not supported: containers may not swap"},
		"reserved cgroups": {head + "enforceNodeAllocatable:\n- pods\n- system-reserved\n", "k:5: enforceNodeAllocatable[1]: not supported"},
		"an alias":         {head + "systemReserved: &a {cpu: 1}\nkubeReserved: *a\n", "YAML aliases are not supported"},
		"gate":             {head + "featureGates: {EnvFiles: true, NodeSwap: true}\n", "k:3: featureGates: not supported: cannot set feature gate NodeSwap to true: containers may not swap"},
		"unknown gate":     {head + "featureGates: {Nonsense: true}\n", "k:3: featureGates: not supported: unrecognized feature gate: Nonsense"},
		"soft":             {head + "evictionSoft: {memory.available: 1Gi}\n", "k:3: evictionSoft: not supported"},
	} {
		_, err := Translate("k", []byte(c.text))
		var faults config.Faults
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	gated, err := Translate("k", []byte(head+"featureGates: {EnvFiles: true, NodeSwap: false, WatchListClient: false}\nkubeReserved: {cpu: '1'}\n"))
	if err != nil || len(gated.Notes) != 1 || !strings.Contains(gated.Notes[0].Error(), "add it to its features as WatchListClient: false") {
		t.Errorf("gates: %v, %v", gated, err)
	}
	tr, err := Translate("k", []byte(head+"staticPodPath: /x\nmaxPods: 7\nmemorySwap: {swapBehavior: NoSwap}\nresolvConf: \"\"\nregisterWithTaints: [{key: a, effect: NoExecute, timeAdded: 2020-01-01T00:00:00Z}]\n"))
	if err == nil || tr == nil {
		t.Fatalf("%v %v", tr, err)
	}
	text, err := tr.YAML()
	if err != nil {
		t.Fatal(err)
	}
	n := load(t, text).Node
	if n.MaxPods != 7 || n.ResolvConf != "/dev/null" || len(n.RegisterWithTaints) != 1 {
		t.Errorf("what can be had is not there: %+v", n)
	}
}

// TestSettingsAreChecked: what the kubelet takes and this kernel does not is found by the kernel's own check.
func TestSettingsAreChecked(t *testing.T) {
	tr, err := Translate("k", []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard: {containerfs.available: 1Gi}\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := tr.YAML()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(config.Source{File: file}); err == nil || !strings.Contains(err.Error(), "node.evictionHard.containerfs.available: is no signal of this node") {
		t.Errorf("%v", err)
	}
}

// FuzzTranslate: what is translated is a configuration of this kernel, and can be put into one.
func FuzzTranslate(f *testing.F) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	data, err := os.ReadFile("testdata/kubelet.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(head + "registerWithTaints: [{key: a, effect: NoExecute, timeAdded: 2020-01-01T00:00:00Z}, null]\nresolvConf: ''\n"))
	f.Add([]byte(head + "featureGates: {EnvFiles: true, ? [a] : b}\nmaxPods: 1e99\n"))
	f.Add([]byte(head + "enforceNodeAllocatable: [pods, &a none, *a]\nevictionHard: {<<: {a: b}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Translate("f", data)
		if err != nil && !errors.As(err, new(config.Faults)) {
			t.Errorf("an error without lines: %v", err)
		}
		if tr == nil {
			return
		}
		text, err := tr.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Into("f", text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		// The general reader knows each key. It may refuse a value.
		file := filepath.Join(t.TempDir(), "p.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(config.Source{File: file}); err != nil && strings.Contains(err.Error(), "unknown") {
			t.Errorf("%v\n%s", err, text)
		}
	})
}
