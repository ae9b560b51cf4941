package kubescheduler

import (
	"bytes"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/kernel/yamltree"
)

// output is what a translation says of a kernel's configuration.
type output struct {
	APIVersion string          `yaml:"apiVersion"`
	Kind       string          `yaml:"kind"`
	Plugins    plugins         `yaml:"plugins"`
	Scheduler  scheduler       `yaml:"scheduler"`
	Election   *leaderElection `yaml:"leaderElection,omitempty"`
}

type plugins struct {
	Bundles []bundle `yaml:"bundles"`
}

type bundle struct {
	Name   string         `yaml:"name"`
	Config map[string]any `yaml:"config,omitempty"`
}

type scheduler struct {
	PodInitialBackoff string     `yaml:"podInitialBackoff,omitempty"`
	PodMaxBackoff     string     `yaml:"podMaxBackoff,omitempty"`
	Profiles          []profile  `yaml:"profiles"`
	Extenders         []extender `yaml:"extenders,omitempty"`
}

type profile struct {
	SchedulerName string         `yaml:"schedulerName"`
	PreEnqueue    []string       `yaml:"preEnqueue,omitempty,flow"`
	QueueSort     string         `yaml:"queueSort,omitempty"`
	PreFilter     []string       `yaml:"preFilter,omitempty,flow"`
	Predicates    []string       `yaml:"predicates"`
	PostFilter    []string       `yaml:"postFilter,omitempty,flow"`
	PreScore      []string       `yaml:"preScore,omitempty,flow"`
	Priorities    []priority     `yaml:"priorities"`
	Reserve       []string       `yaml:"reserve,omitempty,flow"`
	Permit        []string       `yaml:"permit,omitempty,flow"`
	PreBind       []string       `yaml:"preBind,omitempty,flow"`
	Bind          []string       `yaml:"bind,omitempty,flow"`
	PostBind      []string       `yaml:"postBind,omitempty,flow"`
	Config        map[string]any `yaml:"config,omitempty"`
}

type priority struct {
	Name   string `yaml:"name"`
	Weight int32  `yaml:"weight"`
}

type leaderElection struct {
	LeaseDuration string `yaml:"leaseDuration,omitempty"`
	RenewDeadline string `yaml:"renewDeadline,omitempty"`
	RetryPeriod   string `yaml:"retryPeriod,omitempty"`
}

type extender struct {
	URLPrefix        string       `yaml:"urlPrefix"`
	FilterVerb       string       `yaml:"filterVerb,omitempty"`
	PrioritizeVerb   string       `yaml:"prioritizeVerb,omitempty"`
	Weight           int64        `yaml:"weight,omitempty"`
	BindVerb         string       `yaml:"bindVerb,omitempty"`
	PreemptVerb      string       `yaml:"preemptVerb,omitempty"`
	HTTPTimeout      string       `yaml:"httpTimeout,omitempty"`
	EnableHTTPS      bool         `yaml:"enableHTTPS,omitempty"`
	TLS              *extenderTLS `yaml:"tls,omitempty"`
	NodeCacheCapable bool         `yaml:"nodeCacheCapable,omitempty"`
	ManagedResources []string     `yaml:"managedResources,omitempty,flow"`
	Ignorable        bool         `yaml:"ignorable,omitempty"`
}

type extenderTLS struct {
	Insecure   bool   `yaml:"insecure,omitempty"`
	ServerName string `yaml:"serverName,omitempty"`
	CertFile   string `yaml:"certFile,omitempty"`
	KeyFile    string `yaml:"keyFile,omitempty"`
	CAFile     string `yaml:"caFile,omitempty"`
}

func (p *profile) uses(name string) bool {
	for _, list := range [][]string{
		p.PreEnqueue, {p.QueueSort}, p.PreFilter, p.Predicates, p.PostFilter, p.PreScore, p.Reserve, p.Permit, p.PreBind, p.Bind, p.PostBind,
	} {
		if slices.Contains(list, name) {
			return true
		}
	}
	return slices.ContainsFunc(p.Priorities, func(w priority) bool { return w.Name == name })
}

// YAML is the translation as a configuration of its own.
func (t *Translation) YAML() ([]byte, error) {
	return encode(&t.out)
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write translation: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("write translation: %w", err)
	}
	return b.Bytes(), nil
}

// Into is an existing configuration with the translation in it: its keys take the
// place of those that are there, its bundle is added or, if a bundle of the other
// set of Kubernetes' plugins is there, takes its place. Everything else stays, with
// its comments.
func (t *Translation) Into(name string, existing []byte) ([]byte, error) {
	s, err := read(name, existing)
	if err != nil {
		return nil, err
	}
	var tree yaml.Node
	if err := tree.Encode(&t.out); err != nil {
		return nil, fmt.Errorf("write translation: %w", err)
	}
	for _, group := range []string{"scheduler", "leaderElection"} {
		if from := yamltree.Child(&tree, group); from != nil {
			into := mapping(s.Root, group)
			for i := 0; i+1 < len(from.Content); i += 2 {
				yamltree.Put(into, from.Content[i].Value, from.Content[i+1])
			}
		}
	}
	bundles := mapping(s.Root, "plugins")
	list := yamltree.Child(bundles, "bundles")
	if list == nil || list.Kind != yaml.SequenceNode {
		yamltree.Put(bundles, "bundles", yamltree.Child(yamltree.Child(&tree, "plugins"), "bundles"))
		return encode(s.Root)
	}
	// What is in modern may not be in another bundle that is loaded too.
	sets := []string{classic, modern}
	for _, b := range yamltree.Child(yamltree.Child(&tree, "plugins"), "bundles").Content {
		name := yamltree.Child(b, "name").Value
		if name == modern {
			list.Content = slices.DeleteFunc(list.Content, func(n *yaml.Node) bool {
				have := yamltree.Child(n, "name")
				return have != nil && have.Value == entrance
			})
		}
		at := slices.IndexFunc(list.Content, func(n *yaml.Node) bool {
			have := yamltree.Child(n, "name")
			return have != nil && (have.Value == name || slices.Contains(sets, name) && slices.Contains(sets, have.Value))
		})
		if at < 0 {
			list.Content = append(list.Content, b)
			continue
		}
		have := list.Content[at]
		if yamltree.Child(have, "name").Value != name {
			list.Content[at] = b // limits and configuration were for other plugins
			continue
		}
		if config := yamltree.Child(b, "config"); config != nil {
			yamltree.Put(have, "config", config)
		}
	}
	return encode(s.Root)
}

// mapping is the group of keys at a key, made if it is not there.
func mapping(n *yaml.Node, key string) *yaml.Node {
	if m := yamltree.Child(n, key); m != nil && m.Kind == yaml.MappingNode {
		return m
	}
	m := &yaml.Node{Kind: yaml.MappingNode}
	yamltree.Put(n, key, m)
	return m
}
