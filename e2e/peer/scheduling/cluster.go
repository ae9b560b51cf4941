package main

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// cluster is a picture with the pods that are asked about.
type cluster struct {
	// ID is the family and the number in it.
	ID     string `json:"id"`
	Family string `json:"family"`
	// Config is pluginConfig of a KubeSchedulerConfiguration's profile.
	Config []pluginConfig `json:"pluginConfig,omitempty"`
	Nodes  []*v1.Node     `json:"nodes"`
	Pods   []*v1.Pod      `json:"pods,omitempty"`
	// Objects are of other kinds, each with its apiVersion and kind.
	Objects []runtime.Object `json:"objects,omitempty"`
	Ask     []*v1.Pod        `json:"ask"`
	// Answers are those about Ask, in its order.
	Answers []*answer `json:"answers"`
}

// UnmarshalJSON decodes the objects by their kinds.
func (c *cluster) UnmarshalJSON(data []byte) error {
	type plain cluster
	read := struct {
		*plain
		Objects []json.RawMessage `json:"objects"`
	}{plain: (*plain)(c)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	for _, raw := range read.Objects {
		o, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), raw)
		if err != nil {
			return err
		}
		c.Objects = append(c.Objects, o)
	}
	return nil
}

type pluginConfig struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// answer is what kube-scheduler says about one pod.
type answer struct {
	// Whole is the refusal of a pre-filter plugin, which is about all nodes; then
	// there is nothing else.
	Whole *verdict `json:"whole,omitempty"`
	// Refusals are those of filter plugins, by node and plugin. A plugin that is
	// not named lets the pod pass.
	Refusals map[string]map[string]*verdict `json:"refusals,omitempty"`
	// First is, by node that does not fit, the plugin that refuses first.
	First map[string]string `json:"first,omitempty"`
	// Scores are the normalised ones by plugin and node, of nodes that fit. A
	// plugin that has nothing to say about the pod is not named.
	Scores map[string]map[string]int64 `json:"scores,omitempty"`
	// Preemption is there when the pod fits nowhere and the cluster is about it.
	Preemption *preemption `json:"preemption,omitempty"`
	// Message is what the pod's condition says when no node fits, but for what
	// preemption adds.
	Message string `json:"message,omitempty"`
	// Error is what a plugin failed with.
	Error string `json:"error,omitempty"`
}

// verdict is a refusal.
type verdict struct {
	Plugin  string   `json:"plugin,omitempty"`
	Final   bool     `json:"final,omitempty"` // UnschedulableAndUnresolvable
	Reasons []string `json:"reasons"`
}

// preemption is the dry run on all nodes.
type preemption struct {
	// Candidates are the victims by node, most important first.
	Candidates map[string]candidate `json:"candidates,omitempty"`
	// Chosen are the nodes that are equally good, best of all.
	Chosen []string `json:"chosen,omitempty"`
	// Message says why there is none.
	Message string `json:"message,omitempty"`
}

type candidate struct {
	Victims    []string `json:"victims"` // namespace/name
	Violations int64    `json:"violations,omitempty"`
}
