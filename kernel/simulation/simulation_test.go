package simulation

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"pintle.dev/pintle/kernel/plugin"
)

func TestChange(t *testing.T) {
	policy := func() plugin.Config {
		return plugin.Config{Profiles: []plugin.Profile{
			{SchedulerName: "a", Predicates: []string{"P", "Q"}, Priorities: []plugin.WeightedPriority{{Name: "S", Weight: 1}, {Name: "T", Weight: 2}}},
			{SchedulerName: "b", Predicates: []string{"P"}, Priorities: []plugin.WeightedPriority{{Name: "S", Weight: 1}}},
		}}
	}
	for name, c := range map[string]struct {
		request Request
		want    string
	}{
		"weights":            {Request{Set: map[string]int64{"S": 5, "a/T": 7}}, "a[P Q][{S 5} {T 7}] b[P][{S 5}]"},
		"one profile":        {Request{Set: map[string]int64{"b/S": 9}}, "a[P Q][{S 1} {T 2}] b[P][{S 9}]"},
		"left out":           {Request{Disable: []string{"P", "a/T"}}, "a[Q][{S 1}] b[][{S 1}]"},
		"weight of none":     {Request{Set: map[string]int64{"P": 5}}, "no profile uses P in this way; there are: P, Q, S, T"},
		"weight of one gone": {Request{Disable: []string{"T"}, Set: map[string]int64{"T": 5}}, "no profile uses T in this way; there are: P, Q, S"},
		"weight of 0":        {Request{Set: map[string]int64{"S": 0}}, "weight 0 of S: want 1 to 1000000"},
		"unknown":            {Request{Disable: []string{"b/Q"}}, "no profile uses b/Q in this way; there are: P, Q, S, T"},
		"no folder":          {Request{With: map[string]string{"P": "/nowhere"}}, "/nowhere/manifest.yaml: no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			before := policy()
			got, err := change(before, &c.request)
			text := ""
			for i, p := range got.Profiles {
				if i > 0 {
					text += " "
				}
				text += fmt.Sprintf("%s%v%v", p.SchedulerName, p.Predicates, p.Priorities)
			}
			if err != nil {
				text = err.Error()
			}
			if !strings.HasSuffix(text, c.want) {
				t.Errorf("got %s; want %s", text, c.want)
			}
			if !reflect.DeepEqual(before, policy()) {
				t.Errorf("the policy in force was changed: %+v", before)
			}
		})
	}
}

func TestPods(t *testing.T) {
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	meta := metav1.ObjectMeta{Name: "w", Namespace: "n"}
	for name, c := range map[string]struct {
		object runtime.Object
		want   string
	}{
		"pod":        {&v1.Pod{ObjectMeta: meta}, "n/w "},
		"deployment": {&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Template: template}}, "n/w-0 n/w-1 "},
		"default":    {&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: template}}, "n/w-0 "},
		"none":       {&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0), Template: template}}, ""},
		"other":      {&v1.Service{ObjectMeta: meta}, ""},
		"too many":   {&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1 << 30)}}, "w: 1073741824 replicas; at most 10000 are simulated"},
	} {
		t.Run(name, func(t *testing.T) {
			pods, err := Pods(c.object)
			got := ""
			for _, p := range pods {
				got += p.Namespace + "/" + p.Name + " "
			}
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q; want %q", got, c.want)
			}
		})
	}
}
