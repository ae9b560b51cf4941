package kubecontrollers

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kcmv1alpha1 "k8s.io/kube-controller-manager/config/v1alpha1"

	"pintle.dev/pintle/kernel/config"
)

const head = "apiVersion: " + APIVersion + "\nkind: " + Kind + "\n"

// TestRulesAreComplete: each field of upstream's type has a rule, of its own or of a
// group above it, and no other path has one.
func TestRulesAreComplete(t *testing.T) {
	used := map[string]bool{}
	var walk func(typ reflect.Type, path string)
	walk = func(typ reflect.Type, path string) {
		if _, ruled := rules[path]; ruled {
			used[path] = true
			return
		}
		if typ.Kind() != reflect.Struct || typ == reflect.TypeFor[metav1.Duration]() {
			t.Errorf("field %s has no rule", path)
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			if f.Type != reflect.TypeFor[metav1.TypeMeta]() {
				walk(f.Type, strings.TrimPrefix(path+"."+name, "."))
			}
		}
	}
	walk(reflect.TypeFor[kcmv1alpha1.KubeControllerManagerConfiguration](), "")
	for path, r := range rules {
		switch said := 0; {
		case !used[path] && path != "DeprecatedController":
			t.Errorf("the rule %s has no field", path)
		default:
			for _, word := range []string{r.key, r.note, r.fault} {
				if word != "" {
					said++
				}
			}
			if said != 1 || (r.key == "") != (r.plugin == "") {
				t.Errorf("%s: the rule says %d things: %+v", path, said, r)
			}
		}
	}
}

// TestPage: kernel/KUBERNETES.md has each controller, with the plugin that it is here.
func TestPage(t *testing.T) {
	data, err := os.ReadFile("../../KUBERNETES.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(data), "\n## Controllers\n")
	if !ok {
		t.Fatal("the page has no section about controllers")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	page := map[string][2]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\|(.*)\\|$").FindAllStringSubmatch(section, -1) {
		page[row[1]] = [2]string{row[2], row[3]}
	}
	for _, c := range controllers {
		row, ok := page[c.name]
		there := c.plugin != "" || c.kernel
		switch {
		case !ok:
			t.Errorf("the page does not have %s", c.name)
		case (row[0] == "there") != there:
			t.Errorf("the page says that %s is %s; names.go has the plugin %q, in the kernel: %t", c.name, row[0], c.plugin, c.kernel)
		case c.plugin != "" && !strings.Contains(row[1], "plugin `"+c.plugin+"`"):
			t.Errorf("the page says of %s: %s, and not plugin %s", c.name, row[1], c.plugin)
		}
	}
}

// TestPlugins: what the rules name, the bundle's manifest has.
func TestPlugins(t *testing.T) {
	data, err := os.ReadFile("../../../plugins/controllers/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifest := string(data)
	section := func(plugin string) string {
		_, rest, ok := strings.Cut(manifest, "\n- name: "+plugin+"\n")
		if !ok {
			t.Errorf("the bundle does not have %s", plugin)
		}
		rest, _, _ = strings.Cut(rest, "\n- name: ")
		return rest
	}
	for _, c := range controllers {
		if c.plugin != "" {
			section(c.plugin)
		}
	}
	for path, r := range rules {
		if r.plugin != "" && !strings.Contains(section(r.plugin), r.key+": {") {
			t.Errorf("%s: %s has no key %s", path, r.plugin, r.key)
		}
	}
}

func load(t *testing.T, text []byte) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{File: file})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

func TestTranslate(t *testing.T) {
	data, err := os.ReadFile("testdata/controllers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Translate("c.yaml", data)
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
	if want := "Generic.Controllers Generic.LeaderElection"; strings.Join(notes, " ") != want {
		t.Errorf("notes about %v, want %s", notes, want)
	}
	alone, err := tr.YAML()
	if err != nil {
		t.Fatal(err)
	}
	const want = `    - name: controllers
      config:
        root-ca:
          caFile: ${dataDir}/pki/ca.crt
        nodeipam:
          clusterCIDR: 10.244.0.0/16
          allocateNodeCIDRs: true
        nodelifecycle:
          nodeMonitorPeriod: 2s
          nodeMonitorGracePeriod: 90s
          secondaryNodeEvictionRate: 0
          unhealthyZoneThreshold: 0.6
        job:
          concurrentJobSyncs: 20
        podgc:
          terminatedPodThreshold: 1000
`
	if !strings.Contains(string(alone), want) {
		t.Errorf("alone:\n%s\nwant in it\n%s", alone, want)
	}
	control := load(t, alone).Control
	if slices.Contains(control.Enabled, "nodettl") || !slices.Contains(control.Enabled, "deployment") || !slices.Equal(control.Disable, []string{"csrsigning"}) {
		t.Errorf("controllers %+v", control)
	}
	existing := "# mine\napiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\nplugins:\n  bundles:\n  - name: classic # first\n  - name: controllers\n    config:\n      root-ca: {caBundle: x}\n      job: {concurrentJobSyncs: 3}\n      cronjob: {concurrentCronJobSyncs: 9} # stays\ncontrollers: {enabled: [nodettl, hostpath-provisioner], disable: [csrsigning, clusterrole-aggregation]}\n"
	into, err := tr.Into("mine.yaml", []byte(existing))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"# mine", "classic # first", "root-ca: {caBundle: x}", "concurrentJobSyncs: 20", "cronjob: {concurrentCronJobSyncs: 9} # stays"} {
		if !strings.Contains(string(into), part) {
			t.Errorf("into: want %q in\n%s", part, into)
		}
	}
	// What kube-controller-manager does not have stays, and no more of the rest than
	// the file has.
	if got := load(t, into).Control; !slices.Equal(got.Enabled, append(slices.Clone(control.Enabled), "hostpath-provisioner")) || !slices.Equal(got.Disable, control.Disable) {
		t.Errorf("into: %v, without %v", got.Enabled, got.Disable)
	}
}

// Which controllers are on is said as there.
func TestChoose(t *testing.T) {
	byDefault := 0
	for _, c := range controllers {
		if c.plugin != "" && !c.optional {
			byDefault++
		}
	}
	for list, want := range map[string]struct {
		count      int
		has, lacks string
	}{
		"":                                {byDefault, "deployment", ""},
		"[]":                              {byDefault, "deployment", ""},
		"['*']":                           {byDefault, "tainteviction", ""},
		"['*', '-deployment']":            {byDefault - 1, "replicaset", "deployment"},
		"['-deployment-controller', '*']": {byDefault - 1, "replicaset", "deployment"},
		"[-deployment, deployment, '*']":  {byDefault - 1, "", "deployment"},
		"[deployment, -deployment, '*']":  {byDefault, "deployment", ""},
		"[ttl, podgc]":                    {2, "nodettl", "deployment"},
		"[-ttl]":                          {0, "", "nodettl"},
	} {
		text := head
		if list != "" {
			text += "Generic: {Controllers: " + list + "}\n"
		}
		tr, err := Translate("c", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", list, err)
			continue
		}
		if len(tr.enabled) != want.count || want.has != "" && !slices.Contains(tr.enabled, want.has) || slices.Contains(tr.enabled, want.lacks) {
			t.Errorf("%s: %v", list, tr.enabled)
		}
		out, err := tr.YAML()
		if err != nil {
			t.Fatal(err)
		}
		if got := load(t, out).Control.Enabled; len(got) != want.count {
			t.Errorf("%s: the configuration has %v", list, got)
		}
	}
}

func TestFaults(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":              {"", "c:1: is empty; want kind: " + Kind},
		"another kind":       {"apiVersion: " + APIVersion + "\nkind: Pod\n", "c:2: kind: want " + Kind},
		"another version":    {"apiVersion: kubecontrollermanager.config.k8s.io/v1\nkind: " + Kind + "\n", "c:1: apiVersion: want " + APIVersion},
		"unknown":            {head + "JobControler: {}\n", "c:3: JobControler: unknown field"},
		"other case":         {head + "jobController: {}\n", "c:3: jobController: unknown field"},
		"twice":              {head + "JobController: {}\nJobController: {}\n", "c:4: JobController: duplicate field"},
		"wrong type":         {head + "JobController: {ConcurrentJobSyncs: many}\n", "cannot unmarshal"},
		"too large a number": {head + "JobController: {ConcurrentJobSyncs: 99999999999}\n", "cannot unmarshal"},
		"too many":           {head + "JobController:\n  ConcurrentJobSyncs: 5000\n", "c:4: JobController.ConcurrentJobSyncs: Invalid value: 5000: at most 1000 are possible"},
		"less than none":     {head + "JobController: {ConcurrentJobSyncs: -1}\n", "Invalid value: -1: is negative"},
		"not supported":      {head + "KubeCloudShared:\n  CIDRAllocatorType: CloudAllocator\n", "c:4: KubeCloudShared.CIDRAllocatorType: not supported: nodeipam gives ranges of clusterCIDR"},
		"no controller":      {head + "Generic:\n  Controllers:\n  - '*'\n  - -deploymnet\n", `c:6: Generic.Controllers[1]: "deploymnet" is no controller of Kubernetes 1.36`},
		"not there":          {head + "Generic: {Controllers: [attachdetach]}\n", "persistentvolume-attach-detach-controller is not there"},
		"always there":       {head + "Generic: {Controllers: ['*', -serviceaccount-token]}\n", "serviceaccount-token-controller is part of the kernel"},
		"an alias":           {head + "JobController: &a {ConcurrentJobSyncs: 1}\nCronJobController: *a\n", "aliases are not supported"},
	} {
		tr, err := Translate("c", []byte(c.text))
		var faults config.Faults
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if tr != nil {
			if _, err := tr.YAML(); err != nil { // --partial
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	tr, err := Translate("c", []byte(head+"Generic: {Controllers: ['*', '-job']}\nJobController: {ConcurrentJobSyncs: 7}\n"))
	if err != nil || !strings.Contains(tr.Notes.Error(), "c:4: JobController.ConcurrentJobSyncs: is left out: job is not on") {
		t.Errorf("settings of a controller that is off: %v, %v", tr, err)
	}
}

// FuzzTranslate: whatever the file says, there is an answer, and what is translated
// without a fault can be put into itself.
func FuzzTranslate(f *testing.F) {
	data, err := os.ReadFile("testdata/controllers.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(head + "Generic: {Controllers: [-job]}\n"))
	f.Add([]byte(head + "NodeLifecycleController: {NodeEvictionRate: 1e99, NodeMonitorGracePeriod: -5s}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Translate("f", data)
		if err != nil {
			return
		}
		text, err := tr.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := tr.Into("f", text)
		if err != nil || string(again) != string(text) {
			t.Errorf("%v\n%s\ninto itself\n%s", err, text, again)
		}
	})
}
