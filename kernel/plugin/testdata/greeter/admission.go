package main

import (
	"encoding/json"
	"errors"
	"time"

	"pintle.dev/pintle/sdk/admission"
)

type pod struct {
	Metadata struct {
		Labels map[string]string
	}
	Spec struct {
		Containers []struct{ Image string }
	}
}

var pods = []admission.Rule{{Resources: []string{"v1/pods"}}}

// label gives pods a team.
func label(r *admission.Request) error {
	var p pod
	if err := r.Into(&p); err != nil {
		return err
	}
	if p.Metadata.Labels == nil {
		r.Set("/metadata/labels", map[string]string{"team": r.UserInfo.Username})
	} else {
		r.Set("/metadata/labels/team", r.UserInfo.Username)
	}
	r.Warn("team was set")
	return nil
}

// forbidden is the image that refuse does not like; configured.
var forbidden = "latest"

// refuse has an opinion about images, and misbehaves over some.
func refuse(r *admission.Request) error {
	var p pod
	if err := r.Into(&p); err != nil {
		return err
	}
	for _, c := range p.Spec.Containers {
		switch c.Image {
		case forbidden:
			return errors.New("images must not be " + forbidden)
		case "teapot":
			return &admission.Refusal{Code: 418, Reason: "Teapot", Message: "short and stout"}
		case "panics":
			panic("over it")
		case "loops":
			for {
				time.Now()
			}
		}
	}
	return nil
}

func init() {
	admission.Register(admission.Mutator{Name: "label", Rules: pods, Mutate: label})
	admission.Register(admission.Validator{Name: "refuse", Rules: pods, Validate: refuse, Configure: func(config []byte) error {
		var c struct{ Forbidden string }
		if err := json.Unmarshal(config, &c); err != nil {
			return err
		}
		forbidden = c.Forbidden
		return nil
	}})
}
