package apiservers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/transport"

	"pintle.dev/pintle/kernel/reasons"
)

const (
	// checkEvery is the pause between checks of a server that answers; one that does not
	// is asked again after firstCheck, and then after twice as long each time.
	checkEvery, firstCheck = 10 * time.Second, 250 * time.Millisecond
	// checkFor bounds one check, maxDocument what is read of the answer.
	checkFor, maxDocument = 5 * time.Second, 1 << 20

	// Who asks, as of Kubernetes' aggregator.
	checkerName, checkerGroup = "system:kube-aggregator", "system:masters"
)

// check looks after a server until ctx ends.
func (s *server) check(ctx context.Context, r *Registry) {
	client := &http.Client{
		Transport:     transport.NewAuthProxyRoundTripper(checkerName, "", []string{checkerGroup}, nil, through{r, s}),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	pause := firstCheck
	for {
		well, other := true, false
		for _, gv := range s.versions {
			err := discover(ctx, client, gv)
			if ctx.Err() != nil {
				return
			}
			well = well && err == nil
			other = s.note(gv, err) || other
		}
		if other {
			r.changed()
		}
		wait := checkEvery
		if well {
			pause = firstCheck
		} else {
			wait, pause = pause, min(2*pause, checkEvery)
		}
		timer := r.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}

// note keeps what a check found, and reports whether that is something else.
func (s *server) note(gv schema.GroupVersion, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, checked := s.faults[gv]
	s.faults[gv] = err
	return !checked || fmt.Sprint(before) != fmt.Sprint(err)
}

// discover asks for the discovery document of a group version.
func discover(ctx context.Context, client *http.Client, gv schema.GroupVersion) error {
	ctx, cancel := context.WithTimeout(ctx, checkFor)
	defer cancel()
	path := "/apis/" + gv.Group + "/" + gv.Version
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := client.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("failing or missing response from %s: no answer within %s", path, checkFor)
		}
		return fmt.Errorf("failing or missing response from %s: %s", path, reasons.Text(err.Error()))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("bad status from %s: %d", path, res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxDocument+1))
	if err != nil {
		return fmt.Errorf("answer from %s: %s", path, reasons.Text(err.Error()))
	}
	if len(body) > maxDocument {
		return fmt.Errorf("answer from %s: more than %d bytes", path, maxDocument)
	}
	list := metav1.APIResourceList{}
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("answer from %s: want an APIResourceList in JSON", path)
	}
	if list.GroupVersion != gv.String() {
		return fmt.Errorf("answer from %s: it is of group version %.100q", path, reasons.Text(list.GroupVersion))
	}
	return nil
}
