package resultcache

import (
	"context"
	"fmt"
)

// score asks for the raw scores that are missing among the nodes that fit.
func (u *update) score(ctx context.Context) error {
	touched := u.touchedFit()
	for i := range u.priorities {
		cache := &u.priorities[i]
		if u.fitOld || u.nodes != u.view.NodeVersion {
			cache.moved = true
		}
		candidates := touched
		if cache.void || u.fitOld {
			candidates = u.fit
		}
		u.asks[i] = u.asks[i][:0]
		if cache.skip.now {
			continue
		}
		for _, n := range candidates {
			if !cache.have[n] {
				u.asks[i] = append(u.asks[i], n)
			}
		}
		u.askChangedScores(i)
	}
	u.scoreTogether(ctx)
	for i := range u.priorities {
		if err := u.askScores(ctx, i); err != nil {
			return err
		}
	}
	u.fitOld = false
	return nil
}

// askScores asks priority i about those of its nodes whose raw score is missing.
func (u *update) askScores(ctx context.Context, i int) error {
	cache := &u.priorities[i]
	u.ask = u.ask[:0]
	for _, n := range u.asks[i] {
		if !cache.have[n] {
			u.ask = append(u.ask, n)
		}
	}
	if len(u.ask) == 0 {
		return nil
	}
	u.scores = grow(u.scores, len(u.ask), 0)[:len(u.ask)]
	if err := u.policy.Score(ctx, i, u.id, u.ask, u.scores); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		u.trouble = fmt.Errorf("priority %s: %w", cache.Name, err)
		cache.stale = true
		clear(u.scores)
	}
	u.scoresUntil(i)
	for k, n := range u.ask {
		u.takeScore(cache, n, u.scores[k])
	}
	return nil
}

// takeScore keeps a raw score.
func (u *update) takeScore(cache *priorityCache, n uint32, score int64) {
	if cache.take(n, score) {
		u.change(n)
	}
}

// touchedFit lists, once each, the nodes touched since the last update that fit.
func (u *update) touchedFit() []uint32 {
	touched, _ := u.view.Log.Since(u.position)
	u.list = u.list[:0]
	for _, t := range touched {
		if u.fail[t.Node] == fits && u.mark[t.Node] == u.tick {
			u.mark[t.Node] = 0 // each once
			u.list = append(u.list, t.Node)
		}
	}
	return u.list
}
