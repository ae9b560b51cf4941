package kubescheduler

import "pintle.dev/pintle/kernel/config/strictyaml"

// source is a file with what is at hand to translate it.
type source struct {
	*strictyaml.File
	// installed are the plugins at hand, foreigners those of them that were looked for,
	// by kube-scheduler's name; nil: there is none.
	installed  []Installed
	foreigners map[string]*foreign
}

func read(file string, data []byte) (*source, error) {
	f, err := strictyaml.Read(file, data, "kind: KubeSchedulerConfiguration or kind: Policy")
	if err != nil {
		return nil, err
	}
	return &source{File: f}, nil
}
