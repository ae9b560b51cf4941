package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	batchv1 "k8s.io/api/batch/v1"

	"pintle.dev/pintle/e2e/bench/rig"
)

// row is one line of the table, or several that one run measures.
type row struct {
	name string
	// nodes is how many hollow nodes it has; unscheduled: no scheduler runs; alone: it is
	// Pintle's only, and runs when it is named.
	nodes       func(options) int
	unscheduled bool
	alone       bool
	figures     []wanted
	measure     func(ctx context.Context, o options, s *side, out *outcome) error
}

// wanted is a figure of a row and its goal: a value, or how many times better than
// kube-controller-manager's. Of a rate more is better.
type wanted struct {
	name, unit  string
	rate        bool
	goal, times float64
}

const (
	created   = "Deployment, all pods created"
	allReady  = "Deployment, all pods Running and Ready"
	allGone   = "Deployment deleted, until no pod is left"
	resident  = "control plane with pods at rest, resident"
	anonymous = "control plane with pods at rest, anonymous"
	kernelRSS = "kernel or kube-apiserver of it, resident"
	kernelAn  = "kernel or kube-apiserver of it, anonymous"
	rolled    = "rolling update"
	completed = "Job, to Complete"
	finalized = "namespace deleted"
	idleTime  = "idle Deployments, controllers' processor time per minute"
	idleAll   = "idle Deployments, control plane's processor time per minute"
	weightPod = "controllers with pods, resident"
	weightAn  = "controllers with pods, anonymous"
	weighIdle = "controllers idle, resident"
	weighIdAn = "controllers idle, anonymous"
	notReady  = "heartbeat, nodes that were ever not Ready"
	oldest    = "heartbeat, oldest Lease at the end"
	renewed   = "heartbeat, Leases renewed"
	renewal99 = "heartbeat, renewal of a Lease, p99 in the API server"
	beatCost  = "heartbeat, control plane's processor time"
	beatNodes = "heartbeat, hollow nodes' processor time"
	beatRSS   = "heartbeat, control plane, resident"
	beatCtl   = "heartbeat, controllers of it, resident"
	hollowRSS = "heartbeat, hollow nodes, resident"
	allBegan  = "heartbeat, start of the nodes until all are Ready"
)

func none(options) int      { return 0 }
func many(o options) int    { return o.nodes }
func resting(o options) int { return o.restNodes }

func rows() []row {
	return []row{
		{name: "create", nodes: none, unscheduled: true, measure: measureCreate, figures: []wanted{{name: created, unit: "pods/s", rate: true, times: 5}}},
		{name: "ready", nodes: many, measure: measureReady, figures: []wanted{
			{name: allReady, unit: "pods/s", rate: true, goal: 1000}, {name: allGone, unit: "s", goal: 5}}},
		{name: "memory", nodes: resting, measure: measureMemory, figures: []wanted{
			{name: resident, unit: "MB"}, {name: anonymous, unit: "MB"}, {name: kernelRSS, unit: "MB", goal: 350}, {name: kernelAn, unit: "MB"}}},
		{name: "rolling", nodes: many, measure: measureRolling, figures: []wanted{{name: rolled, unit: "s", times: 3}}},
		{name: "job", nodes: many, measure: measureJob, figures: []wanted{{name: completed, unit: "s", times: 3}}},
		{name: "namespace", nodes: none, measure: measureNamespace, figures: []wanted{{name: finalized, unit: "s", times: 5}}},
		{name: "idle", nodes: none, measure: measureIdle, figures: []wanted{{name: idleTime, unit: "s", goal: 1}, {name: idleAll, unit: "s"}}},
		{name: "weight", nodes: many, measure: measureWeight, figures: []wanted{
			{name: weightPod, unit: "MB", goal: 150}, {name: weightAn, unit: "MB"}, {name: weighIdle, unit: "MB", goal: 35}, {name: weighIdAn, unit: "MB"}}},
		{name: "heartbeat", nodes: none, unscheduled: true, alone: true, measure: measureHeartbeat, figures: []wanted{
			{name: notReady, unit: "nodes"}, {name: oldest, unit: "s"}, {name: renewed, unit: "/s", rate: true}, {name: renewal99, unit: "ms"},
			{name: beatCost, unit: "%"}, {name: beatNodes, unit: "%"}, {name: beatRSS, unit: "MB"}, {name: beatCtl, unit: "MB"}, {name: hollowRSS, unit: "MB"}, {name: allBegan, unit: "s"}}},
	}
}

func rowNames() (names []string) {
	for _, r := range rows() {
		names = append(names, r.name)
	}
	return names
}

func readAll(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, 256<<20)) }

// scaled scales a Deployment of no replicas and returns what follows its pods and when that
// began.
func scaled(ctx context.Context, s *side, replicas int) (*pods, time.Time, error) {
	deployments := s.client.AppsV1().Deployments(namespace)
	if _, err := deployments.Create(ctx, deployment("web", 0), metav1.CreateOptions{}); err != nil {
		return nil, time.Time{}, err
	}
	// The replica set is there before the clock starts.
	if err := until(ctx, func() error {
		list, err := s.client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && (len(list.Items) != 1 || list.Items[0].Status.ObservedGeneration == 0) {
			err = errors.New("the replica set is not observed yet")
		}
		return err
	}); err != nil {
		return nil, time.Time{}, err
	}
	p, err := s.follow(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	begin := time.Now()
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if _, err := deployments.Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		p.stop()
		return nil, time.Time{}, err
	}
	return p, begin, nil
}

func measureCreate(ctx context.Context, o options, s *side, out *outcome) error {
	before, err := s.used()
	if err != nil {
		return err
	}
	done := o.profiled(s, "create", 3)
	p, begin, err := scaled(ctx, s, o.pods)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := p.await(ctx, func() bool { return len(p.made) >= o.pods }); err != nil {
		return err
	}
	out.set(created, float64(o.pods)/p.madeAt.Sub(begin).Seconds(), fmt.Sprintf("%d replicas; %s", o.pods, s.per(before, o.pods)))
	done()
	return exactly(ctx, s, o.pods)
}

// exactly asserts that so many pods are there, and no more.
func exactly(ctx context.Context, s *side, want int) error {
	list, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err == nil && len(list.Items) != want {
		err = fmt.Errorf("%d pods are there, want %d", len(list.Items), want)
	}
	return err
}

// bringUp scales to so many pods and waits until all are ready on nodes that exist.
func bringUp(ctx context.Context, s *side, n int) (*pods, time.Time, error) {
	p, begin, err := scaled(ctx, s, n)
	if err != nil {
		return nil, begin, err
	}
	if err := p.await(ctx, func() bool { return len(p.ready) >= n }); err != nil {
		p.stop()
		return nil, begin, err
	}
	return p, begin, nil
}

// placed asserts that each pod is on a node that exists.
func placed(ctx context.Context, s *side) error {
	list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	nodes := map[string]bool{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = true
	}
	pods, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if !nodes[pods.Items[i].Spec.NodeName] {
			return fmt.Errorf("pod %s is on %q, which is no node", pods.Items[i].Name, pods.Items[i].Spec.NodeName)
		}
	}
	return nil
}

func measureReady(ctx context.Context, o options, s *side, out *outcome) error {
	before, err := s.used()
	if err != nil {
		return err
	}
	done := o.profiled(s, "ready", 5)
	p, begin, err := bringUp(ctx, s, o.pods)
	if err != nil {
		return err
	}
	defer p.stop()
	out.set(allReady, float64(o.pods)/p.readyAt.Sub(begin).Seconds(), fmt.Sprintf("%d replicas on %d nodes; %s", o.pods, o.nodes, s.per(before, o.pods)))
	done()
	if err := placed(ctx, s); err != nil {
		return err
	}
	if err := pause(ctx, 3*time.Second); err != nil { // statuses of the owners are written
		return err
	}
	if before, err = s.used(); err != nil {
		return err
	}
	done = o.profiled(s, "delete", 5)
	begin = time.Now()
	if err := s.client.AppsV1().Deployments(namespace).Delete(ctx, "web", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		return err
	}
	if err := p.await(ctx, func() bool { return len(p.there) == 0 }); err != nil {
		return err
	}
	out.set(allGone, p.goneAt.Sub(begin).Seconds(), fmt.Sprintf("%d pods; %s", o.pods, s.per(before, o.pods)))
	done()
	return exactly(ctx, s, 0)
}

func measureMemory(ctx context.Context, o options, s *side, out *outcome) error {
	p, _, err := bringUp(ctx, s, o.pods)
	if err != nil {
		return err
	}
	p.stop()
	if err := pause(ctx, o.rest); err != nil {
		return err
	}
	note := fmt.Sprintf("%d pods on %d nodes, %s at rest", o.pods, o.restNodes, o.rest)
	rss, anon, err := weight(s.servers)
	if err != nil {
		return err
	}
	out.set(resident, rss, note)
	out.set(anonymous, anon, note)
	if rss, anon, err = weight(fixed(s.kernel)); err != nil {
		return err
	}
	out.set(kernelRSS, rss, note)
	out.set(kernelAn, anon, note)
	if err := o.heap(s, "memory"); err != nil {
		return err
	}
	return exactly(ctx, s, o.pods)
}

func measureRolling(ctx context.Context, o options, s *side, out *outcome) error {
	p, _, err := bringUp(ctx, s, o.updated)
	if err != nil {
		return err
	}
	p.stop()
	if err := pause(ctx, 3*time.Second); err != nil {
		return err
	}
	before, err := s.used()
	if err != nil {
		return err
	}
	done := o.profiled(s, "rolling", 5)
	begin := time.Now()
	deployments := s.client.AppsV1().Deployments(namespace)
	d, err := deployments.Patch(ctx, "web", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"ROUND","value":"2"}]}]}}}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	n := int32(o.updated)
	if err := until(ctx, func() error {
		now, err := deployments.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		st := now.Status
		if st.ObservedGeneration < d.Generation || st.UpdatedReplicas != n || st.Replicas != n || st.AvailableReplicas != n {
			return fmt.Errorf("%d updated, %d available of %d", st.UpdatedReplicas, st.AvailableReplicas, st.Replicas)
		}
		return nil
	}); err != nil {
		return err
	}
	out.set(rolled, time.Since(begin).Seconds(), fmt.Sprintf("%d replicas; %s", o.updated, s.per(before, o.updated)))
	done()
	return nil
}

func measureJob(ctx context.Context, o options, s *side, out *outcome) error {
	before, err := s.used()
	if err != nil {
		return err
	}
	done := o.profiled(s, "job", 5)
	begin := time.Now()
	jobs := s.client.BatchV1().Jobs(namespace)
	if _, err := jobs.Create(ctx, indexedJob("job", o.job, o.parallelism), metav1.CreateOptions{}); err != nil {
		return err
	}
	var last *batchv1.Job
	if err := until(ctx, func() (err error) {
		if last, err = jobs.Get(ctx, "job", metav1.GetOptions{}); err != nil {
			return err
		}
		for _, c := range last.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("%d of %d indexes have succeeded, %d failed", last.Status.Succeeded, o.job, last.Status.Failed)
	}); err != nil {
		return err
	}
	out.set(completed, time.Since(begin).Seconds(), fmt.Sprintf("%d indexes, parallelism %d; %s", o.job, o.parallelism, s.per(before, o.job)))
	done()
	if last.Status.Succeeded != int32(o.job) {
		return fmt.Errorf("the Job is Complete with %d of %d indexes", last.Status.Succeeded, o.job)
	}
	return nil
}

func measureNamespace(ctx context.Context, o options, s *side, out *outcome) error {
	const name = "full"
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := rig.Parallel(ctx, o.objects, workers, func(ctx context.Context, i int) (err error) {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("o-%d", i)}
		if i%2 == 0 {
			_, err = s.client.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
		} else {
			_, err = s.client.CoreV1().Secrets(name).Create(ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": []byte("v")}}, metav1.CreateOptions{})
		}
		return err
	}); err != nil {
		return err
	}
	before, err := s.used()
	if err != nil {
		return err
	}
	done := o.profiled(s, "namespace", 3)
	begin := time.Now()
	if err := s.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := until(ctx, func() error {
		_, err := s.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("the namespace is there"))
	}); err != nil {
		return err
	}
	out.set(finalized, time.Since(begin).Seconds(), fmt.Sprintf("%d objects; %s", o.objects, s.per(before, o.objects)))
	done()
	return nil
}

func measureIdle(ctx context.Context, o options, s *side, out *outcome) error {
	deployments := s.client.AppsV1().Deployments(namespace)
	if err := rig.Parallel(ctx, o.deployments, workers, func(ctx context.Context, i int) error {
		_, err := deployments.Create(ctx, deployment(fmt.Sprintf("d-%d", i), 0), metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	if err := until(ctx, func() error {
		list, err := deployments.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		seen := 0
		for i := range list.Items {
			if list.Items[i].Status.ObservedGeneration > 0 {
				seen++
			}
		}
		if seen < o.deployments {
			err = errors.Join(fmt.Errorf("%d of %d Deployments are observed", seen, o.deployments), pause(ctx, time.Second))
		}
		return err
	}); err != nil {
		return err
	}
	if err := pause(ctx, o.rest); err != nil {
		return err
	}
	before, err := s.used()
	if err != nil {
		return err
	}
	if err := pause(ctx, o.watched); err != nil {
		return err
	}
	now, err := s.used()
	if err != nil {
		return err
	}
	minutes := o.watched.Minutes()
	out.set(idleTime, (now.controllers-before.controllers).Seconds()/minutes, fmt.Sprintf("%d Deployments", o.deployments))
	out.set(idleAll, (now.servers-before.servers).Seconds()/minutes, fmt.Sprintf("%d Deployments", o.deployments))
	return nil
}

func measureWeight(ctx context.Context, o options, s *side, out *outcome) error {
	if err := pause(ctx, o.rest); err != nil {
		return err
	}
	rss, anon, err := weight(s.controllers)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("%d nodes, no pods, %s at rest", o.nodes, o.rest)
	out.set(weighIdle, rss, note)
	out.set(weighIdAn, anon, note)
	p, _, err := bringUp(ctx, s, o.many)
	if err != nil {
		return err
	}
	p.stop()
	if err := pause(ctx, o.rest); err != nil {
		return err
	}
	if rss, anon, err = weight(s.controllers); err != nil {
		return err
	}
	note = fmt.Sprintf("%d pods on %d nodes, %s at rest", o.many, o.nodes, o.rest)
	out.set(weightPod, rss, note)
	out.set(weightAn, anon, note)
	return exactly(ctx, s, o.many)
}
