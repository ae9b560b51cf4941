package plugin

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/plugin/wasm"
	"pintle.dev/pintle/sdk/reconciler/protocol"
)

// bounded keeps a controller to what the operator grants: the functions, and
// how many calls a second. It outlives the controller's instances, so that one
// which breaks gains nothing. Lines of the log have a budget of their own.
func (u *unit) bounded(name string) func(wasm.Operator) wasm.Operator {
	var rates *rate.Limiter
	if u.limits.Calls > 0 {
		rates = rate.NewLimiter(rate.Limit(u.limits.Calls), u.limits.Calls)
	}
	return func(next wasm.Operator) wasm.Operator {
		return func(ctx context.Context, function string, request []byte) []byte {
			if function == protocol.FunctionLog {
				return next(ctx, function, request)
			}
			if rates != nil {
				waiting, cancel := context.WithTimeout(ctx, wasm.OperateWait)
				err := rates.Wait(waiting)
				cancel()
				if err != nil {
					return wasm.AnswerOf(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "Too many requests, please try again later.")
				}
			}
			if granted := u.config.HostFunctions; len(granted) > 0 && !slices.Contains(granted, function) {
				u.denied(name, "call the host function "+function, notGranted)
				return wasm.AnswerOf(http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("the configuration does not grant the host function %s", function))
			}
			return next(ctx, function, request)
		}
	}
}
