package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hostileConfiguration is a configuration with a scheduler and what a test adds
// to its keys plugins.bundles and others.
func hostileConfiguration(t *testing.T, file, catalog, bundles, more string) {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
plugins:
  directories: [%s, %s]
  bundles:
  - {name: classic}
%sscheduler: {profiles: [{schedulerName: default-scheduler, predicates: [HostName, PodFitsResources]}]}
%s`, filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins"), catalog, bundles, more)
	if err := os.Rename(write(t, file+".new", text), file); err != nil {
		t.Fatal(err)
	}
}

// TestHostileControllers: controllers in modules that trap, loop, point astray,
// flood the host and ask for what they did not declare or were not granted. Each
// says so in its status, and the cluster goes on.
func TestHostileControllers(t *testing.T) {
	t.Parallel()
	catalog, bundles, names := t.TempDir(), "", []string{}
	list := []byte(`{"resource":"v1/secrets"}`)
	words := []byte(`{"level":8,"message":"noise noise noise"}`)
	size := func(b []byte) uint32 { return uint32(len(b)) }
	whys := map[string]string{}
	add := func(name, why, manifest, grant string, h handmade) {
		h.description = described(name, "controller", `,"for":"v1/namespaces"`)
		h.bundle(t, catalog, name, "controller",
			"  rules:\n  - {apiGroups: [\"\"], resources: [namespaces], verbs: [get, list, watch]}\ntimeouts: {reconcile: 1s}\n"+manifest)
		bundles += "  - {name: " + name + grant + "}\n"
		names = append(names, name)
		whys[name] = why
	}
	done := i64(0)
	then := func(body []byte) []byte { return slices.Concat(body, done) }
	add("ctraps", "unreachable", "", "", handmade{reconcile: unreachable})
	add("cloops", "no answer in time", "", "", handmade{reconcile: forever})
	add("castray", "host function get: 100 bytes at 0xfffffff0 are not in its memory", "hostFunctions: [get]\n", "",
		handmade{imports: []string{"get"}, reconcile: then(call(0, 0xfffffff0, 100))})
	add("canswers", "100 bytes at 0xfffffff0 are not in its memory", "", "",
		handmade{failure: span(0xfffffff0, 100), reconcile: i64(1<<64 - 1)})
	add("cspies", "was forbidden to list secrets, which its manifest does not ask for", "hostFunctions: [list]\n", "",
		handmade{imports: []string{"list"}, text: list, reconcile: then(call(0, textAt, size(list)))})
	add("cwithheld", "was forbidden to call the host function list, which the configuration does not grant", "hostFunctions: [get, list]\n", ", hostFunctions: [get]",
		handmade{imports: []string{"list"}, text: list, reconcile: then(call(0, textAt, size(list)))})
	add("cnags", "no answer in time", "hostFunctions: [list]\n", ", limits: {callsPerSecond: 20}",
		handmade{imports: []string{"list"}, text: list, reconcile: again(call(0, textAt, size(list)))})
	add("cfloods", "no answer in time", "", "",
		handmade{imports: []string{"log"}, text: words, reconcile: again(tell(0, textAt, size(words)))})

	file := filepath.Join(t.TempDir(), "pintle.yaml")
	hostileConfiguration(t, file, catalog, "", "")
	e := minimal(t, file, "")
	e.placer(t)
	before := e.counts(t)
	hostileConfiguration(t, file, catalog, bundles, "controllers: {enabled: ["+strings.Join(names, ", ")+"]}\n")
	for _, name := range names {
		eventually(t, func(context.Context) error {
			out := e.try(t, "get", "plugins", name, "-o", "jsonpath={.status.message}")
			if !strings.Contains(out.stdout, whys[name]) {
				return fmt.Errorf("plugin %s does not say %q: %s %s", name, whys[name], out.stdout, out.stderr)
			}
			return nil
		})
		e.ask(t, "beside-"+name, "default-scheduler")
		e.placed(t, "beside-"+name)
	}
	if err := e.AwaitLog(bound(t), "plugin=cfloods", "lines were dropped"); err != nil {
		t.Errorf("nothing of the flood was dropped: %v", err)
	}
	hostileConfiguration(t, file, catalog, "", "")
	e.ask(t, "last", "default-scheduler")
	e.placed(t, "last")
	e.returnsTo(t, before, catalog)
	e.stop(t)
}

// TestHostileAdmission: admission plugins that trap, loop, point astray, answer
// 100 MB or garbage, and break the objects they patch, each asked about a
// resource of its own. Who writes that is refused and told why, until failures
// are ignored; all others write on.
func TestHostileAdmission(t *testing.T) {
	for _, process := range []bool{false, true} {
		t.Run(map[bool]string{false: "modules", true: "processes"}[process], func(t *testing.T) {
			t.Parallel()
			hostileAdmission(t, process)
		})
	}
}

func hostileAdmission(t *testing.T, process bool) {
	program, err := hostileProcessBinary()
	if err != nil {
		t.Fatal(err)
	}
	catalog := t.TempDir()
	const noAnswer = "no answer in time"
	type hostile struct {
		name, resource, why string
		mutates             bool
		h                   handmade
		process             bool // of e2e/testdata/plugins/hostileprocess
	}
	answer := func(text string) handmade {
		return handmade{text: []byte(text), admit: span(textAt, uint32(len(text)))}
	}
	patch := func(operations string) handmade {
		return answer(fmt.Sprintf(`{"uid":"u","allowed":true,"patchType":"JSONPatch","patch":%q}`, base64.StdEncoding.EncodeToString([]byte(operations))))
	}
	hostiles := []hostile{
		{"atraps", "configmaps", "unreachable", false, handmade{admit: unreachable}, false},
		{"aloops", "secrets", noAnswer, false, handmade{admit: forever}, false},
		{"aastray", "services", "100 bytes at 0xfffffff0 are not in its memory", false, handmade{admit: span(0xfffffff0, 100)}, false},
		{"ahuge", "endpoints", "104857600 bytes, at most 8388608", false, handmade{pages: 1700, admit: span(0, 100<<20)}, false},
		{"agarbage", "limitranges", "its answer: invalid character", true, answer("garbage"), false},
		{"abreaks", "resourcequotas", "the patched object: ", true, patch(`[{"op":"replace","path":"/metadata","value":"gone"}]`), false},
		{"anowhere", "serviceaccounts", "its patch: ", true, patch(`[{"op":"replace","path":"/not/there","value":1}]`), false},
		{"asilent", "persistentvolumeclaims", "failed calling", true, handmade{}, false},
		{"aalloc", "replicationcontrollers", "pintle_alloc returned 0x7", false, handmade{alloc: i32(7)}, false},
		{"admitdies", "configmaps", "", false, handmade{}, true},
		{"admithangs", "secrets", noAnswer, false, handmade{}, true},
		{"admithuge", "services", "received message larger than max", false, handmade{}, true},
		{"admitgarbage", "endpoints", "its answer: invalid character", false, handmade{}, true},
	}
	hostiles = slices.DeleteFunc(hostiles, func(h hostile) bool { return h.process != process })
	bundles, names := func(extra string) string {
		var b strings.Builder
		for _, h := range hostiles {
			fmt.Fprintf(&b, "  - {name: %s%s}\n", h.name, extra)
		}
		return b.String()
	}, []string{}
	for _, h := range hostiles {
		phase := "validating"
		if h.mutates {
			phase = "mutating"
		}
		// Those that answer get the time to: a machine may be busy.
		patience := "20s"
		if h.why == noAnswer {
			patience = "100ms"
		}
		more := fmt.Sprintf("  phase: %s\n  admissionRules: [{operations: [CREATE], resources: [v1/%s]}]\ntimeouts: {call: %s}\n", phase, h.resource, patience)
		h.h.description = described(h.name, "admission", fmt.Sprintf(`,"phase":%q,"rules":[{"operations":["CREATE"],"resources":["v1/%s"]}]`, phase, h.resource))
		names = append(names, h.name)
		if h.process {
			dir := filepath.Join(catalog, h.name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(program, filepath.Join(dir, h.name)); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "manifest.yaml"), hostileManifest(h.name, h.name, "admission")+more)
			seal(t, dir)
			continue
		}
		h.h.bundle(t, catalog, h.name, "admission", more)
	}
	enabled := "admission: {enabled: [" + strings.Join(names, ", ") + "]}\n"
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	hostileConfiguration(t, file, catalog, "", "")
	e := minimal(t, file, "")
	e.placer(t)
	hostileConfiguration(t, file, catalog, bundles(""), enabled)
	if err := e.AwaitLog(bound(t), "configuration applied"); err != nil {
		t.Fatal(err)
	}
	create := func(t *testing.T, name, resource string) result {
		t.Helper()
		path, err := kubectlPath()
		if err != nil {
			t.Fatal(err)
		}
		return e.run(t, fmt.Sprintf("{apiVersion: v1, metadata: {name: %s, namespace: default}, %s}", name, written[resource]), path, "create", "-f", "-")
	}
	for _, h := range hostiles {
		t.Run(h.name, func(t *testing.T) {
			r := create(t, "first", h.resource)
			contains(t, r.stderr, "InternalError", fmt.Sprintf("failed calling admission plugin %q", h.name), h.why)
			e.ask(t, "beside-"+h.name, "default-scheduler")
			e.placed(t, "beside-"+h.name)
		})
	}
	t.Run("ignored", func(t *testing.T) {
		hostileConfiguration(t, file, catalog, bundles(", onFailure: ignore"), enabled)
		for _, h := range hostiles {
			eventually(t, func(context.Context) error {
				if out := e.kubectl(t, "get", "plugins", h.name, "-o", "jsonpath={.spec.onFailure}"); out != "ignore" {
					return fmt.Errorf("the Plugin object of %s says onFailure: %q", h.name, out)
				}
				return nil
			})
			tries := 0
			eventually(t, func(context.Context) error {
				tries++
				if r := create(t, fmt.Sprintf("ignored-%d", tries), h.resource); r.err != nil {
					return fmt.Errorf("%s: %s", h.name, r.stderr)
				}
				return nil
			})
		}
	})
	e.stop(t)
}

// written are objects of resources without their metadata.
var written = map[string]string{
	"configmaps":             "kind: ConfigMap",
	"secrets":                "kind: Secret",
	"services":               "kind: Service, spec: {ports: [{port: 80}]}",
	"endpoints":              "kind: Endpoints",
	"limitranges":            "kind: LimitRange, spec: {limits: []}",
	"resourcequotas":         "kind: ResourceQuota, spec: {hard: {pods: 100000}}",
	"serviceaccounts":        "kind: ServiceAccount",
	"persistentvolumeclaims": "kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}",
	"replicationcontrollers": "kind: ReplicationController, spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}",
}
