package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const head = "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\n"

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pintle.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadFaults(t *testing.T) {
	tests := []struct {
		name, text string
		set, env   []string
		want       string // after the file's name
	}{
		{name: "unknown key", text: "api:\n  prot: 1\n", want: `:4: api.prot: unknown key; did you mean "port"?`},
		{name: "unknown top key", text: "schedular: {}\n", want: `:3: schedular: unknown key; did you mean "scheduler"?`},
		{name: "wrong type", text: "api:\n  port: many\n", want: `:4: api.port: "many" is not a whole number`},
		{name: "out of range", text: "api:\n  port: 70000\n", want: `:4: api.port: 70000 is out of range; want 0 to 65535`},
		{name: "enum", text: "logging: {level: loud}\n", want: `:3: logging.level: "loud" is not one of debug, info, warn, error`},
		{name: "duration", text: "store: {historyRetention: 5}\n", want: `:3: store.historyRetention: "5" is not a duration such as 30s or 5m`},
		{name: "endpoint", text: "tracing: {endpoint: collector}\n", want: `:3: tracing.endpoint: "collector" is not a host and a port such as 127.0.0.1:4317`},
		{name: "sampling", text: "tracing: {samplingRatePerMillion: 2000000}\n", want: `:3: tracing.samplingRatePerMillion: 2000000 is out of range; want 0 to 1000000`},
		{name: "duration range", text: "store: {historyRetention: 1s}\n", want: `:3: store.historyRetention: 1s is out of range; want 10s to 720h`},
		{name: "list wanted", text: "node: {proxies: iptables}\n", want: `:3: node.proxies: want a list, not "iptables"`},
		{name: "group wanted", text: "api: 1\n", want: `:3: api: want a group of keys (bindAddress`},
		{name: "given twice", text: "dataDir: a\ndataDir: b\n", want: `:4: dataDir: key is given twice, first at line 3; keep one`},
		{name: "in a list", text: "plugins:\n  bundles:\n  - name: a\n    transport: magic\n", want: `:6: plugins.bundles[0].transport: "magic" is not one of wasm, process`},
		{name: "missing in a list", text: "plugins:\n  bundles:\n  - transport: wasm\n", want: `:5: plugins.bundles[0]: key "name" is missing: name of the bundle's folder`},
		{name: "cidr", text: "api: {serviceCIDR: 10.96.0.1/16}\n", want: `:3: api.serviceCIDR: "10.96.0.1/16" is not an address range such as 10.96.0.0/16 with its host bits zero`},
		{name: "ports", text: "api: {nodePortRange: 5-2}\n", want: `:3: api.nodePortRange: "5-2" is not a range of ports such as 30000-32767`},
		{name: "digest", text: "plugins: {bundles: [{name: a, digest: abc}]}\n", want: `:3: plugins.bundles[0].digest: "abc" is not a digest: sha256: and 64 hexadecimal digits`},
		{name: "not YAML", text: "api: [\n", want: `: not YAML: `},
		{name: "alias", text: "api: &a {}\nstore: *a\n", want: `YAML aliases are not supported`},
		{name: "two documents", text: "---\ndataDir: x\n", want: `more than one YAML document`},
		{name: "back-off", text: "scheduler: {podInitialBackoff: 20s}\n", want: `:3: scheduler.podInitialBackoff: 20s is longer than podMaxBackoff 10s; want it shorter`},
		{name: "life of tokens", text: "auth: {serviceAccountMaxTokenExpiration: 59m}\n", want: `:3: auth.serviceAccountMaxTokenExpiration: 59m0s is shorter than 1h; want at least 1h, or 0 for no limit`},
		{name: "life of certificates", text: "auth: {clusterSigningDuration: 9m}\n", want: `:3: auth.clusterSigningDuration: 9m is out of range; want 10m to 87600h`},
		{name: "no such controller of the kernel", text: "controllers: {disable: [deployment]}\n", want: `:3: controllers.disable[0]: "deployment" is not one of csrsigning`},
		{name: "ranges overlap", text: "node: {podCIDR: 10.96.3.0/24}\n", want: `:3: node.podCIDR: 10.96.3.0/24 overlaps api.serviceCIDR 10.96.0.0/16; choose another range`},
		{name: "two of a family", text: "api: {serviceCIDR: '10.96.0.0/16,10.97.0.0/16'}\n", want: `:3: api.serviceCIDR: "10.96.0.0/16,10.97.0.0/16" has more than one of an IP family; want one, or one of each`},
		{name: "three ranges", text: "node: {podCIDR: '10.244.0.0/24,fd00::/64,fd01::/64'}\n", want: `:3: node.podCIDR: "10.244.0.0/24,fd00::/64,fd01::/64" has more than one of an IP family`},
		{name: "host bits of the second", text: "api: {serviceCIDR: '10.96.0.0/16,fd00::1/112'}\n", want: `:3: api.serviceCIDR: "fd00::1/112" is not an address range`},
		{name: "an IPv4 range as IPv6", text: "api: {serviceCIDR: '::ffff:10.96.0.0/112'}\n", want: `:3: api.serviceCIDR: "::ffff:10.96.0.0/112" is not an address range`},
		{name: "the second overlaps", text: "api: {serviceCIDR: '10.96.0.0/16,fd00:96::/112'}\nnode: {podCIDR: '10.244.0.0/24,fd00:96::/64'}\n", want: `:4: node.podCIDR: fd00:96::/64 overlaps api.serviceCIDR fd00:96::/112; choose another range`},
		{name: "all pods overlap", text: "api: {serviceCIDR: '10.96.0.0/16,fd00:96::/112'}\nnode: {clusterCIDRs: ['fd00:96::/56']}\n", want: `:4: node.clusterCIDRs: fd00:96::/56 overlaps api.serviceCIDR fd00:96::/112`},
		{name: "pods of another family", text: "api: {serviceCIDR: 'fd00:96::/112'}\nnode: {enabled: true, runtime: containerd, podCIDR: 10.244.0.0/24}\n", want: `:4: node.podCIDR: 10.244.0.0/24 begins with IPv4, and api.serviceCIDR fd00:96::/112 with IPv6; want the same family first`},
		{name: "another order", text: "api: {serviceCIDR: '10.96.0.0/16,fd00:96::/112'}\nnode: {enabled: true, runtime: containerd, podCIDR: 'fd00:244::/64,10.244.0.0/24'}\n", want: `:4: node.podCIDR: fd00:244::/64,10.244.0.0/24 begins with IPv6, and api.serviceCIDR 10.96.0.0/16,fd00:96::/112 with IPv4`},
		{name: "services of two families", text: "api: {serviceCIDR: '10.96.0.0/16,fd00:96::/112'}\nnode: {enabled: true, runtime: containerd, podCIDR: 10.244.0.0/24}\n", want: `:4: node.podCIDR: 10.244.0.0/24 has one IP family, and api.serviceCIDR 10.96.0.0/16,fd00:96::/112 has two; want a range of each`},
		{name: "the node's address", text: "node: {enabled: true, runtime: containerd, address: '2001:db8::1,192.0.2.1'}\n", want: `:3: node.address: 2001:db8::1,192.0.2.1 begins with IPv6, and api.serviceCIDR 10.96.0.0/16 with IPv4`},
		{name: "two addresses of a family", text: "node: {address: '192.0.2.1,192.0.2.2'}\n", want: `:3: node.address: "192.0.2.1,192.0.2.2" is not an IP address such as 192.0.2.10, or one of each IP family`},
		{name: "outside of all pods", text: "node: {network: bridge, clusterCIDRs: [10.244.0.0/16, 'fd00:244::/56'], podCIDR: '10.244.0.0/24,fd00:99::/64'}\n", want: `:3: node.podCIDR: fd00:99::/64 is not within node.clusterCIDRs [10.244.0.0/16 fd00:244::/56]`},
		{name: "pods of hollow nodes", text: "node: {enabled: true, runtime: containerd, podCIDR: 10.200.3.0/24}\nhollow: {nodes: 1, runtime: hollow}\n", want: `:3: node.podCIDR: 10.200.3.0/24 overlaps 10.128.0.0/9, the pod IPs of hollow nodes; choose another range`},
		{name: "services in the hollow range", text: "api: {serviceCIDR: 10.200.0.0/16}\nhollow: {nodes: 1, runtime: hollow}\n", want: `:3: api.serviceCIDR: 10.200.0.0/16 overlaps 10.128.0.0/9, the pod IPs of hollow nodes; choose another range`},
		{name: "no runtime", text: "node: {enabled: true}\n", want: `node.runtime: is empty; name a runtime plugin`},
		{name: "unknown gate", text: "features: {WatchLst: true}\n", want: `:3: features.WatchLst: unrecognized feature gate: WatchLst; did you mean "WatchList"?`},
		{name: "locked gate", text: "features:\n  WatchList: false\n  SidecarContainers: false\n", want: `:5: features.SidecarContainers: cannot set feature gate SidecarContainers to false, feature is locked to true`},
		{name: "gate without a value", text: "features: {WatchList: maybe}\n", want: `:3: features.WatchList: invalid value of WatchList=maybe, err: strconv.ParseBool`},
		{name: "gate of what is not there", text: "features: {NodeSwap: true}\n", want: `:3: features.NodeSwap: cannot set feature gate NodeSwap to true: containers may not swap`},
		{name: "gate of what cannot be switched off", text: "features: {EnvFiles: false}\n", want: `:3: features.EnvFiles: cannot set feature gate EnvFiles to false: what it stands for cannot be switched off here`},
		{name: "all gates of a stage", text: "features: {AllAlpha: true}\n", want: `:3: features.AllAlpha: cannot set feature gate AllAlpha to true: most gates`},
		{name: "version without a group", text: "api: {runtimeConfig: {v1: false}}\n", want: `:3: api.runtimeConfig.v1: is none of group/version`},
		{name: "version without a value", text: "api: {runtimeConfig: {apps/v1: off}}\n", want: `:3: api.runtimeConfig.apps/v1: "off" is not true or false`},
		{name: "set unknown", set: []string{"api.prot=1"}, want: `--set api.prot: unknown key; did you mean "api.port"?`},
		{name: "set wrong", set: []string{"api.port=x"}, want: `--set api.port: "x" is not a whole number`},
		{name: "set no value", set: []string{"api.port"}, want: `--set api.port: want key=value`},
		{name: "set a map to a word", set: []string{"node.labels=a"}, want: `--set node.labels: "a" is not a YAML map such as {a: b}`},
		{name: "set a map to nothing", set: []string{"node.labels="}, want: `--set node.labels: "" is not a YAML map`},
		{name: "set a map to an alias", set: []string{"node.labels={a: &x b, c: *x}"}, want: `is not a YAML map`},
		{name: "set a map in a map", set: []string{"node.labels={a: {b: c}}"}, want: `--set node.labels.a: want a word, not a group of keys`},
		{name: "set a key twice", set: []string{"node.labels={a: b, a: c}"}, want: `--set node.labels.a: key is given twice`},
		{name: "set an unknown signal", set: []string{"node.evictionHard={disk: 1Gi}"}, want: `--set node.evictionHard.disk: is no signal of this node`},
		{name: "set the configuration of plugins", set: []string{"admission.podSecurity={}"}, want: `--set admission.podSecurity: unknown key`},
		{name: "environment wrong", env: []string{"PINTLE_API_PORT=-1"}, want: `PINTLE_API_PORT: -1 is out of range; want 0 to 65535`},
		{name: "environment unknown", env: []string{"PINTLE_PORT=1"}, want: `PINTLE_PORT: no key of the configuration has this environment variable`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(Source{File: write(t, head+tc.text), Set: tc.set, Environ: tc.env})
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %s\nwant %s", err, tc.want)
			}
		})
	}
}

func TestLoadReportsEveryFault(t *testing.T) {
	_, err := Load(Source{File: write(t, head+"api: {port: x}\nlogging: {level: y}\n")})
	if got := strings.Count(err.Error(), "\n"); got != 1 {
		t.Errorf("want two lines, got: %s", err)
	}
}

func TestLoadMissingFile(t *testing.T) {
	_, err := Load(Source{File: "/nowhere/pintle.yaml"})
	if err == nil || !strings.Contains(err.Error(), "/nowhere/pintle.yaml: no such file") {
		t.Errorf("got %v", err)
	}
}

func TestLoadPrecedence(t *testing.T) {
	file := write(t, head+`
api: {port: 1, bindAddress: 127.0.0.1}
store: {minFree: 1Gi, historyRetention: 7m}
plugins:
  bundles:
  - name: classic
    config: {maxVolumes: {awsEBS: 5}, Words: [a]}
scheduler:
  profiles:
  - schedulerName: default-scheduler
    predicates: [HostName]
    priorities: [{name: EqualPriority}, {name: X, weight: 3}]
node:
  labels: {Disk/Type: SSD}
`)
	cfg, err := Load(Source{
		File:    file,
		Environ: []string{"PINTLE_API_PORT=2", "PINTLE_LOGGING_LEVEL=debug", "HOME=/", "PINTLE_NODE_SYSTEMRESERVED={cpu: 1}", "PINTLE_API_RUNTIMECONFIG={apps/v1: false}"},
		Set:     []string{"logging.level=warn", "node.proxies=[userspace]", "node.evictionHard={nodefs.available: 1Gi}", "node.systemReserved={cpu: 2}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	checks := []struct {
		name      string
		got, want any
	}{
		{"environment over file", cfg.API.Port, 2},
		{"file over default", cfg.API.BindAddress, "127.0.0.1"},
		{"set over environment", cfg.Logging.Level, "warn"},
		{"default", cfg.API.NodePortRange, "30000-32767"},
		{"size", cfg.Store.MinFree, Size(1 << 30)},
		{"duration", cfg.Store.HistoryRetention, 7 * time.Minute},
		{"keys of plugin configuration keep their case", string(cfg.Plugins.Bundles[0].Config), `{"Words":["a"],"maxVolumes":{"awsEBS":5}}`},
		{"labels keep their case", cfg.Node.Labels["Disk/Type"], "SSD"},
		{"weight defaults to 1", cfg.Scheduler.Profiles[0].Priorities[0].Weight, int64(1)},
		{"weight", cfg.Scheduler.Profiles[0].Priorities[1].Weight, int64(3)},
		{"map by environment", cfg.API.RuntimeConfig["apps/v1"], "false"},
		{"map by set takes the place of the default", fmt.Sprint(cfg.Node.EvictionHard), "map[nodefs.available:1Gi]"},
		{"map by set over environment", cfg.Node.SystemReserved["cpu"], "2"},
		{"list by set", strings.Join(cfg.Node.Proxies, ","), "userspace"},
	}
	for _, c := range checks {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestShowRoundTrip(t *testing.T) {
	cfg := Default()
	cfg.Node.Labels = map[string]string{"a/B": "yes"}
	cfg.Features = map[string]string{"WatchList": "false"}
	cfg.API.RuntimeConfig = map[string]string{"apps/v1/daemonsets": "false"}
	cfg.Plugins.Bundles = []Bundle{{Name: "classic", Transport: "wasm", Config: []byte(`{"A":1}`)}}
	cfg.Plugins.Catalog, cfg.Plugins.LockFile, cfg.Plugins.Keys = "c", "l", []string{"cosign.pub"}
	cfg.Scheduler.Profiles = []Profile{{SchedulerName: "s", Predicates: []string{"P"}, Priorities: []Priority{{Name: "Q", Weight: 2}}}}
	var out bytes.Buffer
	if err := Show(&out, cfg); err != nil {
		t.Fatal(err)
	}
	again, err := Load(Source{File: write(t, out.String())})
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if d := Diff(cfg, again); len(d) > 0 {
		t.Errorf("differs after a round trip: %v\n%s", d, out.String())
	}
	for _, want := range []string{"PINTLE_API_PORT", "live; PINTLE_LOGGING_LEVEL", "#   CBORServingAndStorage: false (ALPHA)\n", "\n  WatchList: false\n", "apps/v1/daemonsets: false\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q", want)
		}
	}
}

// TestInstalledBundles: where they are kept and pinned, and by whom signed.
func TestInstalledBundles(t *testing.T) {
	file := write(t, head+"dataDir: data\n")
	cfg, err := Load(Source{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if p := cfg.Plugins; p.Catalog != "data/catalog" || p.LockFile != "data/plugins.lock" || cfg.FormerLock() != filepath.Join(filepath.Dir(file), "plugins.lock") || p.Signatures != "off" {
		t.Errorf("%+v", p)
	}
	if cfg, err = Load(Source{Set: []string{"dataDir=elsewhere", "plugins.catalog=c"}}); err != nil {
		t.Fatal(err)
	}
	if p := cfg.Plugins; p.Catalog != "c" || p.LockFile != "elsewhere/plugins.lock" {
		t.Errorf("%+v", p)
	}
	if err := cfg.Resolve(); err != nil || !filepath.IsAbs(cfg.Plugins.Catalog) || !filepath.IsAbs(cfg.Plugins.LockFile) {
		t.Errorf("%+v, %v", cfg.Plugins, err)
	}
	for text, want := range map[string]string{
		"plugins: {signatures: require}\n":       "plugins.keys: is empty while plugins.signatures is require",
		"plugins: {signatures: sometimes}\n":     `"sometimes" is not one of off, warn, require`,
		"plugins: {signatures: warn, keys: k}\n": "want a list",
	} {
		if _, err := Load(Source{File: write(t, head+text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEveryKeyHasDocumentation(t *testing.T) {
	for _, k := range Keys() {
		if fieldAt(k).doc == "" {
			t.Errorf("%s has no documentation", k)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(head + "api: {port: 1}\n"))
	f.Add([]byte("a: &x [*x]"))
	f.Add([]byte("plugins: {bundles: [{name: 1, config: {? [a] : b}}]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Skip()
		}
		cfg, err := Load(Source{File: file})
		if err == nil {
			if err := Show(&bytes.Buffer{}, cfg); err != nil {
				t.Fatal(err)
			}
		}
	})
}
