package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"pintle.dev/pintle/kernel/plugin/admissionrules"
	"pintle.dev/pintle/kernel/plugin/description"
	"pintle.dev/pintle/kernel/plugin/groupversions"
	"pintle.dev/pintle/kernel/plugin/sealed"
	"pintle.dev/pintle/kernel/yamltree"
	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

const (
	// ManifestFile is the name of a bundle's manifest in its folder.
	File = "manifest.yaml"

	manifestVersion  = "kernel.pintle.dev/v1alpha1"
	manifestKind     = "PluginManifest"
	maxManifestBytes = sealed.MaxBytes
	maxFiles         = 1000
	maxPath          = 255
	maxNamespaces    = 16 // two objects each for a plugin
)

// Transports of a bundle.
const (
	TransportWASM    = "wasm"
	TransportProcess = "process"
)

// What a failing predicate counts as.
const (
	OnFailureRefuse = "refuse"
	OnFailureIgnore = "ignore"
)

// Manifest says what a bundle is made of and what its plugins may do.
type Manifest struct {
	APIVersion string    `yaml:"apiVersion"`
	Kind       string    `yaml:"kind"`
	Name       string    `yaml:"name"`
	Version    string    `yaml:"version"`
	Artifacts  Artifacts `yaml:"artifacts,omitempty"`
	Plugins    []Entry   `yaml:"plugins"`
	// Rules are what the bundle's own identity may do: what its shared
	// informers read.
	Rules     []Rule   `yaml:"rules,omitempty"`
	OnFailure string   `yaml:"onFailure,omitempty"` // refuse (default) or ignore
	Timeouts  Timeouts `yaml:"timeouts,omitempty"`
	Limits    Limits   `yaml:"limits,omitempty"`
	// HostFunctions are what a module may call beside WASI: get, list, create,
	// update, patch, delete, event. What they may reach the rules say.
	HostFunctions []string `yaml:"hostFunctions,omitempty"`
	// Privileged: the process needs the kernel's own user and rights, as one that
	// starts containers or programs the network does. The operator has to grant
	// it.
	Privileged bool `yaml:"privileged,omitempty"`
	// Network: the process uses the machine's network. Without it there are unix
	// sockets alone, by which it has the API. The operator has to grant it.
	Network bool `yaml:"network,omitempty"`
	// LowPorts: with Network, the process may listen at ports below 1024. It may where
	// the operator grants it.
	LowPorts bool `yaml:"lowPorts,omitempty"`
	// Files are folders of the machine that the module reads, by absolute path.
	// It reads those of them that the operator grants.
	Files []string `yaml:"files,omitempty"`
}

// Artifacts are the builds of a bundle; Seal fills them in.
type Artifacts struct {
	WASM    *Artifact `yaml:"wasm,omitempty"`
	Process *Artifact `yaml:"process,omitempty"`
	// Platforms are process builds for one platform each, by os/arch such as
	// linux/arm64. Where there is one for this machine it goes before Process.
	Platforms map[string]*Artifact `yaml:"platforms,omitempty"`
	// Files are what the builds need beside them, such as a script's modules.
	Files []Artifact `yaml:"files,omitempty"`
}

// Artifact is a file of the bundle's folder, pinned.
type Artifact struct {
	Path   string `yaml:"path"`   // relative to the folder, inside it
	Digest string `yaml:"digest"` // sha256: and 64 hexadecimal digits
}

// Entry is one plugin of the bundle.
type Entry struct {
	Name      string   `yaml:"name"`
	Kind      string   `yaml:"kind"`
	Scope     string   `yaml:"scope,omitempty"`
	Normalize string   `yaml:"normalize,omitempty"`
	Reads     []string `yaml:"reads,omitempty"`
	OnFailure string   `yaml:"onFailure,omitempty"`
	Rules     []Rule   `yaml:"rules,omitempty"`
	// Phase of an admission plugin: mutating or validating. AdmissionRules are the
	// requests that it may be asked about at most.
	Phase          string                `yaml:"phase,omitempty"`
	AdmissionRules []admissionrules.Rule `yaml:"admissionRules,omitempty"`
	// GroupVersions are those of the API that an API server serves.
	GroupVersions []groupversions.GroupVersion `yaml:"groupVersions,omitempty"`
	// SplitFrom names the plugin that did this one's work in earlier versions. Who has
	// that one in use and not this one is warned.
	SplitFrom string `yaml:"splitFrom,omitempty"`
	// ConfigSchema is what the plugin's configuration must be like; nil: anything.
	ConfigSchema *ConfigSchema `yaml:"configSchema,omitempty"`
}

// Rule is an RBAC policy rule, which counts in the whole cluster, or in Namespace alone.
type Rule struct {
	APIGroups       []string `yaml:"apiGroups,omitempty"`
	Resources       []string `yaml:"resources,omitempty"`
	ResourceNames   []string `yaml:"resourceNames,omitempty"`
	NonResourceURLs []string `yaml:"nonResourceURLs,omitempty"`
	Verbs           []string `yaml:"verbs"`
	Namespace       string   `yaml:"namespace,omitempty"`
}

// Timeouts override the host's; zero leaves it.
type Timeouts struct {
	Call  time.Duration `yaml:"call,omitempty"`
	Start time.Duration `yaml:"start,omitempty"`
	Stop  time.Duration `yaml:"stop,omitempty"`
	// Reconcile is of one reconciliation of a controller in a module; 30 s
	// where nothing is said.
	Reconcile time.Duration `yaml:"reconcile,omitempty"`
	// Binding is of a call of a process before, for and after a binding, which may
	// wait for others; a hundred times call where nothing is said.
	Binding time.Duration `yaml:"binding,omitempty"`
	// Idle is how long a bundle of API servers may be without a request before its process
	// ends; the next request starts it. It runs on where nothing is said.
	Idle time.Duration `yaml:"idle,omitempty"`
}

// maxBinding bounds Timeouts.Binding: a pod waits on its node meanwhile.
const maxBinding = 24 * time.Hour

// minIdle and maxIdle bound Timeouts.Idle.
const minIdle, maxIdle = time.Second, 24 * time.Hour

// Permissions are the rules as a Plugin object has them.
func Permissions(rules []Rule) []v1alpha1.PluginPermission {
	out := make([]v1alpha1.PluginPermission, 0, len(rules))
	for _, r := range rules {
		out = append(out, v1alpha1.PluginPermission{Namespace: r.Namespace, PolicyRule: rbacv1.PolicyRule{
			APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames,
			NonResourceURLs: r.NonResourceURLs, Verbs: r.Verbs,
		}})
	}
	return out
}

// Read reads and checks the manifest at path, with what a build wrote beside
// it. Every fault is one line of the error: file:line: what is wrong and what would be
// right.
func Read(path string) (*Manifest, error) {
	data, err := sealed.Read(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("plugin manifest: %w", err)
	}
	return Parse(path, data)
}

// Parse is ReadManifest of data already read; path is for messages.
func Parse(path string, data []byte) (*Manifest, error) {
	if len(data) > maxManifestBytes {
		return nil, fmt.Errorf("%s:1: larger than %d bytes", path, maxManifestBytes)
	}
	var root yaml.Node
	first := yaml.NewDecoder(bytes.NewReader(data))
	if err := first.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return nil, ManifestError(path, err)
	}
	if len(root.Content) == 0 {
		return nil, fmt.Errorf("%s:1: empty; want apiVersion: %s", path, manifestVersion)
	}
	if err := first.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s:1: holds more than one YAML document; keep one", path)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	m := &Manifest{}
	if err := d.Decode(m); err != nil {
		return nil, ManifestError(path, err)
	}
	c := &checker{path: path, root: root.Content[0]}
	c.manifest(m)
	return m, errors.Join(c.faults...)
}

var (
	yamlLine     = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	yamlDuration = regexp.MustCompile("^cannot unmarshal !!(?:int|float) `([^`]*)` into time.Duration$")
	yamlUnknown  = regexp.MustCompile(`^field (\S+) not found in type (?:manifest|groupversions)\.(\S+)$`)
	digestForm   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	versionForm  = regexp.MustCompile(`^[0-9A-Za-z][-+._0-9A-Za-z]{0,63}$`)
	PlatformForm = regexp.MustCompile(`^[a-z0-9]{1,16}/[a-z0-9]{1,16}$`)
	nameForm     = regexp.MustCompile(`^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$`)
	pluginKinds  = append([]string{sdk.KindPredicate, sdk.KindPriority, sdk.KindController, sdk.KindAdmission, sdk.KindRuntime, sdk.KindProxy, sdk.KindNetwork, sdk.KindAPIServer, sdk.KindCloud}, sdk.CycleKinds()...)
	normalizings = []string{"", string(sdk.NormalizeNone), string(sdk.NormalizeMax), string(sdk.NormalizeReverseMax), string(sdk.NormalizeReverse), string(sdk.NormalizeMinMax), string(sdk.NormalizePlugin), string(sdk.NormalizePluginNonzero)}
)

// verbs are those of the API; others are of somebody's own resources, and are not
// written almost as one of these.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "use", "bind", "escalate", "impersonate", "approve", "sign", "attest", "proxy", "head", "post", "put", "options", "*",
}

// manifestKeys are the keys of each part of a manifest, by the name of its type.
var manifestKeys = func() map[string][]string {
	keys := map[string][]string{}
	for _, part := range []reflect.Type{
		reflect.TypeFor[Manifest](), reflect.TypeFor[Artifacts](), reflect.TypeFor[Artifact](), reflect.TypeFor[Entry](),
		reflect.TypeFor[Rule](), reflect.TypeFor[Timeouts](), reflect.TypeFor[Limits](),
		reflect.TypeFor[groupversions.GroupVersion](),
	} {
		for i := range part.NumField() {
			key, _, _ := strings.Cut(part.Field(i).Tag.Get("yaml"), ",")
			keys[part.Name()] = append(keys[part.Name()], key)
		}
	}
	return keys
}()

// ManifestError rewrites the decoder's errors as file:line lines.
func ManifestError(path string, err error) error {
	lines := []string{err.Error()}
	var typed *yaml.TypeError
	if errors.As(err, &typed) {
		lines = typed.Errors
	}
	var faults []error
	for _, line := range lines {
		number := "1"
		if m := yamlLine.FindStringSubmatch(line); m != nil {
			number, line = m[1], m[2]
		}
		if m := yamlUnknown.FindStringSubmatch(line); m != nil {
			line = "unknown key " + m[1] + " in " + strings.ToLower(m[2])
			if near := yamltree.Nearest(m[1], manifestKeys[m[2]]); near != "" {
				line += fmt.Sprintf("; did you mean %q?", near)
			}
		}
		if m := yamlDuration.FindStringSubmatch(line); m != nil {
			line = fmt.Sprintf("%s has no unit; want a duration such as %ss or %sms", m[1], m[1], m[1])
		}
		faults = append(faults, fmt.Errorf("%s:%s: %s", path, number, line))
	}
	return errors.Join(faults...)
}

// checker collects what is wrong with a manifest, with lines.
type checker struct {
	path   string
	root   *yaml.Node
	faults []error
	// namespaces are those that rules of the bundle are of.
	namespaces []string
}

// at reports a fault at the deepest node that the keys lead to.
func (c *checker) at(keys string, format string, args ...any) {
	line, node := max(c.root.Line, 1), c.root
	for key := range strings.SplitSeq(keys, ".") {
		next := yamltree.Child(node, key)
		if next == nil {
			break
		}
		node, line = next, next.Line
	}
	c.faults = append(c.faults, fmt.Errorf("%s:%d: %s: %s", c.path, line, keys, fmt.Sprintf(format, args...)))
}

func (c *checker) manifest(m *Manifest) {
	if m.APIVersion != manifestVersion {
		c.at("apiVersion", "%q; want %s", m.APIVersion, manifestVersion)
	}
	if m.Kind != manifestKind {
		c.at("kind", "%q; want %s", m.Kind, manifestKind)
	}
	if !nameForm.MatchString(m.Name) {
		c.at("name", "%q; want 1 to 63 letters, digits, '-', '_' and '.'", m.Name)
	}
	switch {
	case m.Version == "":
		c.at("version", "missing; want the bundle's version, such as 1.0.0")
	case !versionForm.MatchString(m.Version):
		c.at("version", "%q; want 1 to 64 letters, digits, '-', '+', '_' and '.', such as 1.0.0", m.Version)
	}
	c.artifacts(&m.Artifacts)
	c.onFailure("onFailure", m.OnFailure)
	for _, t := range []struct {
		key   string
		value time.Duration
	}{{"timeouts.call", m.Timeouts.Call}, {"timeouts.start", m.Timeouts.Start}, {"timeouts.stop", m.Timeouts.Stop}, {"timeouts.reconcile", m.Timeouts.Reconcile}} {
		if t.value < 0 || t.value > 10*time.Minute {
			c.at(t.key, "%s; want 0 to 10m", t.value)
		}
	}
	if t := m.Timeouts.Binding; t < 0 || t > maxBinding {
		c.at("timeouts.binding", "%s; want 0 to 24h", t)
	}
	c.idle(m)
	faults := m.Limits.faults()
	for _, key := range slices.Sorted(maps.Keys(faults)) {
		c.at("limits."+key, "%s", faults[key])
	}
	if m.LowPorts && !m.Network {
		c.at("lowPorts", "without network: true there are no ports")
	}
	for i, path := range m.Files {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			c.at(fmt.Sprintf("files.%d", i), "%q; want the absolute path of a folder", path)
		}
	}
	for i, name := range m.HostFunctions {
		if !slices.Contains(HostFunctions, name) {
			c.at(fmt.Sprintf("hostFunctions.%d", i), "%q; want one of %s", name, strings.Join(HostFunctions, ", "))
		}
	}
	if len(m.Plugins) == 0 {
		c.at("plugins", "missing; name at least one plugin")
	}
	seen := map[string]bool{}
	for i := range m.Plugins {
		p, key := &m.Plugins[i], fmt.Sprintf("plugins.%d", i)
		if !nameForm.MatchString(p.Name) {
			c.at(key+".name", "%q; want 1 to 63 letters, digits, '-', '_' and '.'", p.Name)
		}
		if seen[p.Name] {
			c.at(key+".name", "%s is there twice", p.Name)
		}
		seen[p.Name] = true
		if !slices.Contains(pluginKinds, p.Kind) {
			c.at(key+".kind", "%q; want one of %s", p.Kind, strings.Join(pluginKinds, ", "))
		}
		if p.Scope != "" && !slices.Contains(scopesOf(p.Kind), sdk.Scope(p.Scope)) {
			c.at(key+".scope", "%q; predicates and priorities have node-object, node or cluster, pre-enqueue and pre-filter plugins node or cluster, reserve, pre-bind, bind and post-bind plugins node-object", p.Scope)
		}
		if p.Normalize != "" && (p.Kind != sdk.KindPriority || !slices.Contains(normalizings, p.Normalize)) {
			c.at(key+".normalize", "%q; priorities have none, max, reverse-max, reverse, min-max, plugin or plugin-nonzero", p.Normalize)
		}
		for k, kind := range p.Reads {
			if fault := description.Readable(kind); fault != "" {
				c.at(fmt.Sprintf("%s.reads.%d", key, k), "%s", fault)
			}
		}
		c.onFailure(key+".onFailure", p.OnFailure)
		if p.SplitFrom != "" && (p.SplitFrom == p.Name || !nameForm.MatchString(p.SplitFrom)) {
			c.at(key+".splitFrom", "%q; want the name of another plugin, which did the work of this one", p.SplitFrom)
		}
		c.rules(key+".rules", p.Rules)
		c.admission(key, p)
		c.groupVersions(key, p)
		if p.ConfigSchema != nil {
			if err := p.ConfigSchema.load(filepath.Dir(c.path)); err != nil {
				for line := range strings.SplitSeq(err.Error(), "\n") {
					c.at(key+".configSchema", "%s", line)
				}
			}
		}
	}
	c.rules("rules", m.Rules)
}

// scopesOf are those that a plugin of a kind may have.
func scopesOf(kind string) []sdk.Scope {
	switch kind {
	case sdk.KindPredicate, sdk.KindPriority:
		return []sdk.Scope{sdk.ScopeNodeObject, sdk.ScopeNode, sdk.ScopeCluster}
	case sdk.KindPreEnqueue, sdk.KindPreFilter:
		return []sdk.Scope{sdk.ScopeNode, sdk.ScopeCluster}
	case sdk.KindReserve, sdk.KindPreBind, sdk.KindBind, sdk.KindPostBind:
		return []sdk.Scope{sdk.ScopeNodeObject}
	}
	return nil
}

// admission checks what a plugin reviews, without which nobody could grant it.
func (c *checker) admission(key string, p *Entry) {
	if p.Kind != sdk.KindAdmission {
		if p.Phase != "" || len(p.AdmissionRules) > 0 {
			c.at(key+".kind", "%s; phase and admissionRules are for admission plugins", p.Kind)
		}
		return
	}
	if p.Phase != sdk.PhaseMutating && p.Phase != sdk.PhaseValidating {
		c.at(key+".phase", "%q; want %s or %s, as the plugin is", p.Phase, sdk.PhaseMutating, sdk.PhaseValidating)
	}
	if len(p.AdmissionRules) == 0 {
		c.at(key+".admissionRules", "missing; name the requests that the plugin reviews, such as {operations: [CREATE], resources: [v1/pods]}")
	}
	for i, r := range p.AdmissionRules {
		if fault := r.Fault(); fault != "" {
			c.at(fmt.Sprintf("%s.admissionRules.%d", key, i), "%s", fault)
		}
	}
}

// groupVersions checks what an API server serves, without which nobody could grant it.
func (c *checker) groupVersions(key string, p *Entry) {
	if p.Kind != sdk.KindAPIServer {
		if len(p.GroupVersions) > 0 {
			c.at(key+".groupVersions", "for plugins of kind apiserver; this is a %s", p.Kind)
		}
		return
	}
	all := groupversions.Faults(p.GroupVersions)
	for _, at := range slices.Sorted(maps.Keys(all)) {
		for _, fault := range all[at] {
			c.at(strings.TrimSuffix(key+".groupVersions."+at, "."), "%s", fault)
		}
	}
}

// idle checks that a process which ends is one that a request can start.
func (c *checker) idle(m *Manifest) {
	if m.Timeouts.Idle == 0 {
		return
	}
	if m.Timeouts.Idle < minIdle || m.Timeouts.Idle > maxIdle {
		c.at("timeouts.idle", "%s; want 1s to 24h, or 0 for a process that runs on", m.Timeouts.Idle)
	}
	for i := range m.Plugins {
		if p := &m.Plugins[i]; p.Kind != sdk.KindAPIServer {
			c.at("timeouts.idle", "for bundles of plugins of kind apiserver, which requests start; %s is a %s", p.Name, p.Kind)
		}
	}
}

func (c *checker) onFailure(key, value string) {
	if value != "" && value != OnFailureRefuse && value != OnFailureIgnore {
		c.at(key, "%q; want refuse or ignore", value)
	}
}

func (c *checker) artifacts(a *Artifacts) {
	c.artifact("artifacts.wasm", a.WASM)
	c.artifact("artifacts.process", a.Process)
	for _, platform := range slices.Sorted(maps.Keys(a.Platforms)) {
		if !PlatformForm.MatchString(platform) {
			c.at("artifacts.platforms", "%q; want os/arch, such as linux/arm64", platform)
		}
		if a.Platforms[platform] == nil {
			c.at("artifacts.platforms", "%s has no path and digest", platform)
		}
		c.artifact("artifacts.platforms."+platform, a.Platforms[platform])
	}
	if len(a.Files) > maxFiles {
		c.at("artifacts.files", "%d of them; want %d at most", len(a.Files), maxFiles)
	}
	for i := range a.Files {
		c.artifact(fmt.Sprintf("artifacts.files.%d", i), &a.Files[i])
	}
	// Two keys may name one build; two paths that some file systems take for
	// one may not be there.
	paths := map[string]Artifact{}
	for _, x := range a.All() {
		folded := strings.ToLower(x.Path)
		if other, ok := paths[folded]; ok && other != x {
			c.at("artifacts", "%s and %s are one file, with one digest", other.Path, x.Path)
		}
		paths[folded] = x
	}
}

// All are the builds and files that a bundle pins.
func (a *Artifacts) All() []Artifact {
	var all []Artifact
	for _, x := range []*Artifact{a.WASM, a.Process} {
		if x != nil {
			all = append(all, *x)
		}
	}
	for _, platform := range slices.Sorted(maps.Keys(a.Platforms)) {
		if x := a.Platforms[platform]; x != nil {
			all = append(all, *x)
		}
	}
	return append(all, a.Files...)
}

// ProcessFor returns the process build for a platform (os/arch), or nil.
func (a *Artifacts) ProcessFor(platform string) *Artifact {
	if x := a.Platforms[platform]; x != nil {
		return x
	}
	return a.Process
}

// Platform is this machine's, as manifests name it.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// PathFault says what is wrong with the path of a bundle's file, or "".
func PathFault(path string) string {
	switch {
	case !filepath.IsLocal(path):
		return "want a path inside the bundle's folder"
	case len(path) > maxPath:
		return fmt.Sprintf("want %d bytes at most", maxPath)
	case strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || r == utf8.RuneError || !unicode.IsPrint(r) }):
		return "want printable letters, and / between folders"
	case filepath.Clean(path) != path:
		return "want " + filepath.Clean(path)
	case path == "." || strings.EqualFold(path, File) || strings.EqualFold(path, sealed.File):
		return "want a file beside the manifest"
	}
	return ""
}

func (c *checker) artifact(key string, a *Artifact) {
	if a == nil {
		return
	}
	if fault := PathFault(a.Path); fault != "" {
		c.at(key+".path", "%q; %s", a.Path, fault)
	}
	if !digestForm.MatchString(a.Digest) {
		c.at(key+".digest", "%q; want sha256: and 64 hexadecimal digits (pintle plugin seal writes it)", a.Digest)
	}
}

func (c *checker) rules(key string, rules []Rule) {
	for i, r := range rules {
		if len(r.Verbs) == 0 {
			c.at(fmt.Sprintf("%s.%d", key, i), "a rule without verbs allows nothing")
		}
		for k, verb := range r.Verbs {
			if near := yamltree.Nearest(verb, verbs); verb == "" || near != "" && !slices.Contains(verbs, verb) {
				c.at(fmt.Sprintf("%s.%d.verbs.%d", key, i, k), "%q; did you mean %q? Verbs are: %s", verb, cmp.Or(near, "get"), strings.Join(verbs, ", "))
			}
		}
		if len(r.Resources) == 0 && len(r.NonResourceURLs) == 0 {
			c.at(fmt.Sprintf("%s.%d", key, i), "a rule needs resources or nonResourceURLs")
		}
		if r.Namespace == "" {
			continue
		}
		at := fmt.Sprintf("%s.%d.namespace", key, i)
		if faults := validation.IsDNS1123Label(r.Namespace); len(faults) > 0 {
			c.at(at, "%q is not the name of a namespace: %s", r.Namespace, faults[0])
		}
		if len(r.NonResourceURLs) > 0 {
			c.at(at, "nonResourceURLs are in no namespace: give them a rule of their own")
		}
		if !slices.Contains(c.namespaces, r.Namespace) {
			if c.namespaces = append(c.namespaces, r.Namespace); len(c.namespaces) == maxNamespaces+1 {
				c.at(at, "rules of more than %d namespaces; ask for rights in all of them instead", maxNamespaces)
			}
		}
	}
}

// AskedRules are the rules that a plugin asks for: its own, and of a controller or cloud
// provider also those of the bundle.
func (m *Manifest) AskedRules(e *Entry) []v1alpha1.PluginPermission {
	if sdk.ControllingKind(e.Kind) {
		return Permissions(slices.Concat(m.Rules, e.Rules))
	}
	return Permissions(e.Rules)
}
