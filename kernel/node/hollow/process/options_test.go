package process

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func sound() Options {
	return Options{Nodes: 3, Name: "hollow", LeaseDuration: 40 * time.Second, StatusReport: 5 * time.Minute}
}

// TestOptions: what cannot be used is refused with the flag that is wrong.
func TestOptions(t *testing.T) {
	good := sound()
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		"--nodes 0":                             func(o *Options) { o.Nodes = 0 },
		"--nodes 65537":                         func(o *Options) { o.Nodes = 65537 },
		`--name "Up"`:                           func(o *Options) { o.Name = "Up" },
		`--name ""`:                             func(o *Options) { o.Name = "" },
		`--name "../x"`:                         func(o *Options) { o.Name = "../x" },
		"the Lease of its names would be named": func(o *Options) { o.Name = strings.Repeat("a", 245) },
		"--node-labels: key":                    func(o *Options) { o.Labels = map[string]string{"a b": ""} },
		"--node-labels: value":                  func(o *Options) { o.Labels = map[string]string{"a": "b c"} },
		"--start-rate -1":                       func(o *Options) { o.StartRate = -1 },
		"--node-lease-duration 3s":              func(o *Options) { o.LeaseDuration = 3 * time.Second },
		"--node-status-report-frequency 9s":     func(o *Options) { o.StatusReport = 9 * time.Second },
	} {
		o := sound()
		change(&o)
		if err := o.check(); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestParseTaints(t *testing.T) {
	taints, err := ParseTaints("a=b:NoSchedule,example.com/c:NoExecute")
	if err != nil || len(taints) != 2 || taints[0] != (corev1.Taint{Key: "a", Value: "b", Effect: "NoSchedule"}) ||
		taints[1] != (corev1.Taint{Key: "example.com/c", Effect: "NoExecute"}) {
		t.Errorf("%v %v", taints, err)
	}
	if none, err := ParseTaints(""); none != nil || err != nil {
		t.Errorf("%v %v", none, err)
	}
	for _, text := range []string{"a", "a=b", "a=b:Never", ":NoSchedule", "a=b c:NoSchedule", ",", "a:NoSchedule,"} {
		if _, err := ParseTaints(text); !errors.Is(err, ErrOptions) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCapacity(t *testing.T) {
	list, err := Capacity(50, map[string]string{"cpu": "4"}, map[string]string{"example.com/gpu": "8"})
	if err != nil || list.Pods().Value() != 50 || list.Cpu().Value() != 4 {
		t.Errorf("%v %v", list, err)
	}
	if gpus := list["example.com/gpu"]; gpus.Value() != 8 {
		t.Errorf("%v", list)
	}
	for want, values := range map[string][2]map[string]string{
		`resource "pods"`:           {{"pods": "9"}, nil},
		`resource "example.com/a"`:  {{"example.com/a": "9"}, nil},
		`cpu="x"`:                   {{"cpu": "x"}, nil},
		`memory="-1"`:               {{"memory": "-1"}, nil},
		`"gpu": want a name`:        {nil, {"gpu": "1"}},
		`"kubernetes.io/gpu": want`: {nil, {"kubernetes.io/gpu": "1"}},
		`"a.kubernetes.io/g": want`: {nil, {"a.kubernetes.io/g": "1"}},
		`resource "a b/c"`:          {nil, {"a b/c": "1"}},
	} {
		if _, err := Capacity(110, values[0], values[1]); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, pods := range []int{0, -1, 127} {
		if _, err := Capacity(pods, nil, nil); !errors.Is(err, ErrOptions) {
			t.Errorf("%d pods: %v", pods, err)
		}
	}
}
