package hollow

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"pintle.dev/pintle/kernel/config"
)

// hollowCIDRBits is the size of a hollow node's range of pod IPs: with 126 addresses it
// holds the 110 pods that such a node takes.
const hollowCIDRBits = 25

// Claims names the ConfigMap in kube-system by which the kernels of a
// cluster share out the ranges of their hollow nodes: by the name of a kernel's
// first one, the numbers of its ranges, such as "0-99,300-349".
const Claims = "pintle-hollow-ranges"

// claimTries is how often a kernel begins anew when another one was quicker.
var claimTries = wait.Backoff{Steps: 20, Duration: 10 * time.Millisecond, Factor: 1.5, Jitter: 0.5, Cap: time.Second}

// hollowRange is what a hollow node has alone: a range of pod IPs and a number,
// by which it has its own address.
type hollowRange struct {
	number  int
	podCIDR string
}

// claimHollowRanges gives each of n hollow nodes a range that no node of the
// cluster has and no other kernel will take, and a node that is there already
// the one that it has.
func claimHollowRanges(ctx context.Context, client kubernetes.Interface, prefix string, n int) (ranges []hollowRange, err error) {
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err = retry.OnError(claimTries, again, func() error {
		configMaps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
		// First what is promised, then what is there: a promise is kept before
		// the nodes of it are made.
		claims, err := configMaps.Get(ctx, Claims, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			claims, err = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: Claims}}, nil
		}
		if err != nil {
			return err
		}
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var claim string
		if ranges, claim, err = shareHollowRanges(claims.Data, nodes.Items, prefix, n); err != nil || claims.Data[firstHollow(prefix)] == claim {
			return err
		}
		claims = claims.DeepCopy()
		if claims.Data == nil {
			claims.Data = map[string]string{}
		}
		claims.Data[firstHollow(prefix)] = claim
		if missing {
			_, err = configMaps.Create(ctx, claims, metav1.CreateOptions{})
		} else {
			_, err = configMaps.Update(ctx, claims, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ranges of pod IPs of hollow nodes: %w", err)
	}
	return ranges, nil
}

// firstHollow is the key of a prefix, which may be empty.
func firstHollow(prefix string) string { return prefix + "0" }

// shareHollowRanges chooses the ranges of the nodes prefix0 … prefix(n-1) and
// returns what is then claimed for the prefix.
func shareHollowRanges(claims map[string]string, nodes []corev1.Node, prefix string, n int) ([]hollowRange, string, error) {
	taken := map[int]bool{} // by others, or given out
	ours := map[int]bool{}  // claimed for the prefix
	for other, text := range claims {
		of, err := parseNumbers(text)
		if err != nil {
			return nil, "", fmt.Errorf("ConfigMap %s/%s, key %s: %w; correct or delete it", metav1.NamespaceSystem, Claims, other, err)
		}
		if other == firstHollow(prefix) {
			ours = of
			continue
		}
		maps.Copy(taken, of)
	}
	ranges := make([]hollowRange, n)
	for i := range ranges {
		ranges[i].number = -1
	}
	for _, node := range nodes {
		own := -1
		if rest, ok := strings.CutPrefix(node.Name, prefix); ok {
			if i, err := strconv.Atoi(rest); err == nil && i >= 0 && i < n && rest == strconv.Itoa(i) {
				own = i
			}
		}
		if own >= 0 {
			ranges[own].podCIDR = node.Spec.PodCIDR
		}
		for _, cidr := range node.Spec.PodCIDRs {
			first, last, ok := hollowNumbers(cidr)
			for number := first; ok && number <= last; number++ {
				taken[number] = true
			}
			if ok && own >= 0 && first == last {
				ranges[own].number = first
				ours[first] = true
			}
		}
	}
	mine, free := slices.Sorted(maps.Keys(ours)), 0
	next := func() int {
		for len(mine) > 0 {
			number := mine[0]
			if mine = mine[1:]; !taken[number] {
				return number
			}
		}
		for taken[free] {
			free++
		}
		return free
	}
	for i := range ranges {
		r := &ranges[i]
		if r.number < 0 {
			r.number = next()
			taken[r.number], ours[r.number] = true, true
		}
		if r.podCIDR != "" {
			continue
		}
		var err error
		if r.podCIDR, err = hollowCIDR(r.number); err != nil {
			return nil, "", fmt.Errorf("%w for node %s%d: delete hollow nodes that are not used any more, and their keys in ConfigMap %s/%s",
				err, prefix, i, metav1.NamespaceSystem, Claims)
		}
	}
	return ranges, formatNumbers(ours), nil
}

// hollowNumbers are the numbers of the ranges that a range of pod IPs touches.
func hollowNumbers(cidr string) (first, last int, ok bool) {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() {
		return 0, 0, false
	}
	all := netip.MustParsePrefix(config.HollowPodRange)
	if !p.Overlaps(all) {
		return 0, 0, false
	}
	if p.Bits() <= all.Bits() {
		return 0, hollowRanges - 1, true
	}
	a, base := p.Masked().Addr().As4(), all.Addr().As4()
	offset := int(binary.BigEndian.Uint32(a[:]) - binary.BigEndian.Uint32(base[:]))
	const size = 1 << (32 - hollowCIDRBits)
	return offset / size, (offset + 1<<(32-p.Bits()) - 1) / size, true
}

// hollowRanges is how many ranges of hollow nodes there are.
const hollowRanges = 1 << (hollowCIDRBits - 9)

// hollowCIDR is the range of pod IPs of a number.
func hollowCIDR(number int) (string, error) {
	all, err := netip.ParsePrefix(config.HollowPodRange)
	if err != nil {
		return "", err
	}
	base := all.Addr().As4()
	first := binary.BigEndian.Uint32(base[:]) + uint32(number)<<(32-hollowCIDRBits)
	binary.BigEndian.PutUint32(base[:], first)
	own := netip.PrefixFrom(netip.AddrFrom4(base), hollowCIDRBits)
	if number < 0 || !all.Overlaps(own) {
		return "", fmt.Errorf("no range of pod IPs is left in %s", all)
	}
	return own.String(), nil
}

// hollowIP is the address, of 10.64.0.0/10, of the hollow node with a number.
func hollowIP(number int) net.IP {
	return net.IPv4(10, 64+byte(number>>16)&63, byte(number>>8), byte(number))
}

// parseNumbers reads "0-99,300"; the empty text is none.
func parseNumbers(text string) (map[int]bool, error) {
	set := map[int]bool{}
	if text == "" {
		return set, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, several := strings.Cut(part, "-")
		if !several {
			high = low
		}
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || from < 0 || to < from || to >= hollowRanges {
			return nil, fmt.Errorf("%.40q is not numbers from 0 to %d such as 0-99,300", part, hollowRanges-1)
		}
		for i := from; i <= to; i++ {
			set[i] = true
		}
	}
	return set, nil
}

func formatNumbers(set map[int]bool) string {
	var parts []string
	all := slices.Sorted(maps.Keys(set))
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		part := strconv.Itoa(all[i])
		if j > i {
			part += "-" + strconv.Itoa(all[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
