package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"pintle.dev/pintle/sdk"
	"pintle.dev/pintle/sdk/artifact"
)

// Review is what an admission plugin makes of a request.
type Review struct {
	Refused string // why; empty: it is allowed
	// Patch is the JSON patch (RFC 6902) of a mutating plugin, decoded; nil: it
	// changes nothing.
	Patch []any
}

// String is the answer as a case's file has it.
func (r Review) String() string {
	switch {
	case r.Refused != "":
		return fmt.Sprintf("%q", r.Refused)
	case r.Patch != nil:
		data, err := json.Marshal(r.Patch)
		if err != nil { // it was decoded from JSON or YAML
			return err.Error()
		}
		return string(data)
	}
	return "allowed"
}

func (r Review) node() *yaml.Node {
	n := &yaml.Node{}
	var v any = "allowed"
	switch {
	case r.Refused != "":
		v = r.Refused
	case r.Patch != nil:
		v = r.Patch
	}
	if err := n.Encode(v); err != nil { // of what JSON can say it cannot fail
		panic(err)
	}
	return n
}

// parseReview reads a case about a request.
func (r rawCase) parseReview(c *Case) error {
	if r.Nodes != nil || r.Pods != nil || r.Objects != nil || r.Pod != nil {
		return errors.New("a case is about a request, or about a pod and nodes, not about both")
	}
	data, err := json.Marshal(r.Request)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	c.Request, c.WantReviews = data, map[string]Review{}
	for plugin, want := range r.Want {
		switch v := want.(type) {
		case string:
			if v == "allowed" {
				v = ""
			}
			c.WantReviews[plugin] = Review{Refused: v}
		case []any:
			// Numbers as JSON has them.
			data, err := json.Marshal(v)
			if err != nil {
				return fmt.Errorf("want of %s: %w", plugin, err)
			}
			var review Review
			if err := json.Unmarshal(data, &review.Patch); err != nil {
				return fmt.Errorf("want of %s: %w", plugin, err)
			}
			c.WantReviews[plugin] = review
		default:
			return fmt.Errorf("want of %s: %v; want allowed, why it is refused, or a JSON patch", plugin, want)
		}
	}
	return nil
}

// Review asks every admission plugin of a about the case's request: plugin → answer.
func (c Case) Review(ctx context.Context, a artifact.Artifact) (map[string]Review, error) {
	if err := c.configure(ctx, a); err != nil {
		return nil, err
	}
	got := map[string]Review{}
	for i, p := range a.Plugins() {
		if p.GetKind() != sdk.KindAdmission {
			continue
		}
		data, err := a.Review(ctx, i, c.Request)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.GetName(), err)
		}
		if got[p.GetName()], err = parseResponse(data); err != nil {
			return nil, fmt.Errorf("%s: %w", p.GetName(), err)
		}
	}
	return got, nil
}

// parseResponse holds an AdmissionResponse to the contract.
func parseResponse(data []byte) (Review, error) {
	var response struct {
		Allowed *bool
		Status  *struct {
			Code    int
			Message string
		}
		Patch     []byte // base64
		PatchType string
		Warnings  []string
	}
	if err := json.Unmarshal(data, &response); err != nil {
		return Review{}, fmt.Errorf("its response is no AdmissionResponse: %w", err)
	}
	switch {
	case response.Allowed == nil:
		return Review{}, errors.New("its response does not say whether the request is allowed")
	case !*response.Allowed && (response.Status == nil || response.Status.Message == ""):
		return Review{}, errors.New("it refuses without a message")
	case !*response.Allowed:
		return Review{Refused: response.Status.Message}, nil
	case len(response.Patch) == 0:
		return Review{}, nil
	case response.PatchType != "JSONPatch":
		return Review{}, fmt.Errorf("patchType %q, want JSONPatch", response.PatchType)
	}
	var review Review
	if err := json.Unmarshal(response.Patch, &review.Patch); err != nil {
		return Review{}, fmt.Errorf("its patch is no JSON patch: %w", err)
	}
	return review, nil
}

// compareReviews returns what differs from WantReviews, a line each.
func (c Case) compareReviews(got map[string]Review) error {
	var faults []error
	for _, plugin := range slices.Sorted(maps.Keys(c.WantReviews)) {
		want := c.WantReviews[plugin]
		if has, ok := got[plugin]; !ok {
			faults = append(faults, fmt.Errorf("%s: it is no admission plugin of this build", plugin))
		} else if !reflect.DeepEqual(has, want) {
			faults = append(faults, fmt.Errorf("%s: got %s, want %s", plugin, has, want))
		}
	}
	return errors.Join(faults...)
}

// someRequests are what the API may ask about: objects of all sizes and none.
var someRequests = []string{
	`{"uid":"1","operation":"CREATE","resource":{"group":"","version":"v1","resource":"pods"},"kind":{"group":"","version":"v1","kind":"Pod"},"namespace":"default","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a/b~c":"\u00e9\ud83d\ude00\n\"\\"}},"spec":{"containers":[{"name":"c","ports":[]}]}},"oldObject":null}`,
	`{"uid":"2","operation":"DELETE","resource":{"group":"apps","version":"v1","resource":"deployments"},"namespace":"default","name":"d","object":null,"oldObject":{"metadata":{"name":"d"}}}`,
	"{\"uid\":\"3\",\n  \"operation\" : \"UPDATE\",\t\"object\" : { } , \"oldObject\":{\"metadata\":[1,-2.5e3,true,false,null,\"\"]}}",
}

// reviews: an admission plugin answers in the form of the contract, the same
// twice, refuses what is no request, and goes on.
func reviews(ctx context.Context, s *suite, a artifact.Artifact) error {
	for i, p := range s.plugins {
		if p.GetKind() != sdk.KindAdmission {
			continue
		}
		for _, bad := range []string{"no JSON", "", "{"} {
			if _, err := a.Review(ctx, i, []byte(bad)); err == nil || brokenAnswer(a, err) {
				return fmt.Errorf("%s: about the request %q: %v; want an error with words, and the plugin goes on", p.GetName(), bad, err)
			}
		}
		for _, request := range someRequests {
			var before []byte
			for range 2 {
				data, err := a.Review(ctx, i, []byte(request))
				if brokenAnswer(a, err) {
					return fmt.Errorf("%s: about the request %s: %w", p.GetName(), request, err)
				}
				if err == nil {
					_, err = parseResponse(data)
					if err != nil {
						return fmt.Errorf("%s: about the request %s: %w", p.GetName(), request, err)
					}
				}
				if before != nil && !bytes.Equal(before, data) {
					return fmt.Errorf("%s: it answers the same request with %s and %s", p.GetName(), before, data)
				}
				before = data
			}
		}
		if err := refusal(a.Configure(ctx, len(s.plugins), nil), artifact.StatusPlugin, "a configuration for a plugin that is not there"); err != nil {
			return err
		}
	}
	_, err := a.Review(ctx, len(s.plugins), []byte(someRequests[0]))
	if err == nil || brokenAnswer(a, err) {
		return fmt.Errorf("an admission plugin that is not there: %v; want an error with words", err)
	}
	return nil
}

// brokenAnswer tells a plugin that failed from one that says no: a process says
// no with any status of gRPC but those of a connection that is gone.
func brokenAnswer(a artifact.Artifact, err error) bool {
	if err == nil || errors.Is(err, artifact.ErrRefused) {
		return false
	}
	if p, ok := a.(*artifact.Process); ok {
		return p.Health(context.Background()) != nil
	}
	return true
}

// reconciliations: a controller whose every question is answered with 503 says
// that it is done or that it failed, and goes on. That of a key is the same for
// objects with and without a namespace, and for names of all letters.
func reconciliations(ctx context.Context, s *suite, a artifact.Artifact) error {
	r := a.(artifact.Reconciler)
	for i, p := range s.plugins {
		if p.GetKind() != sdk.KindController {
			continue
		}
		for _, key := range []string{`{"name":"default"}`, `{"namespace":"default","name":"a-name.with.dots"}`, `{"namespace":"","name":"\u00e9\"\\"}`} {
			for range 50 {
				if err := r.Reconcile(ctx, i, []byte(key)); err != nil && !errors.Is(err, artifact.ErrRefused) {
					return fmt.Errorf("%s: about the key %s, where the API answers 503: %w", p.GetName(), key, err)
				}
			}
		}
	}
	return refusal(r.Reconcile(ctx, len(s.plugins), []byte(`{"name":"x"}`)), artifact.StatusPlugin, "a controller that is not there")
}
