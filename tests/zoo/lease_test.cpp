// Leases and the state, on a store in a folder.
#include "zoo/lease.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "base/error.h"
#include "support/test_files.h"
#include "zoo/state.h"

namespace kaiju::zoo {
namespace {

class LeaseTest : public testing::Test {
  protected:
    static std::filesystem::path made(const std::filesystem::path& folder) {
        std::filesystem::create_directories(folder);
        return folder;
    }
    Lease only(Leases& leases) {
        const std::vector<Lease> all = leases.all();
        EXPECT_EQ(all.size(), 1U);
        return all.at(0);
    }
    test::TemporaryFolder folder_;
    std::filesystem::path root_ = made(folder_.path() / "store");
    std::unique_ptr<ObjectStore> store_ = open_store(root_.string(), {});
    Database database_{folder_.path() / "observer.db"};
};

TEST_F(LeaseTest, IsHeldUntilItIsReleased) {
    Leases leases(*store_, database_, {.beat = 1, .term = 1000});
    EXPECT_TRUE(leases.all().empty());
    const auto lease = leases.take(0, 0, "me", "encode");
    ASSERT_TRUE(lease);
    EXPECT_EQ(leases.judge(only(leases)), LeaseView::held);
    beat_lease(*store_, *lease);
    EXPECT_EQ(only(leases).owner, "me");
    EXPECT_FALSE(only(leases).beat.empty());
    EXPECT_EQ(leases.judge(only(leases)), LeaseView::held);
    release_lease(*store_, *lease);
    EXPECT_EQ(leases.judge(only(leases)), LeaseView::free);
    EXPECT_THROW(beat_lease(*store_, *lease), Error);
    EXPECT_EQ(leases.take(0, 1, "next", "feed")->token, 2U);
    EXPECT_EQ(only(leases).owner, "next");
    // A judgement that grew old takes nothing: neither the place of the one who was faster, nor, where that
    // one's predecessor is already cleared away, a place in the past.
    EXPECT_FALSE(leases.take(0, 1, "late", "encode"));
    EXPECT_FALSE(leases.take(0, 0, "later", "encode"));
    EXPECT_EQ(only(leases).owner, "next");
    EXPECT_EQ(store_->list("zoo/lease/").size(), 1U);
}

TEST_F(LeaseTest, SilenceIsMeasuredByTheObserversOwnClock) {
    Leases leases(*store_, database_, {.beat = 1, .term = 1000});
    const auto lease = leases.take(0, 0, "gone", "encode");
    beat_lease(*store_, *lease);
    EXPECT_EQ(leases.judge(only(leases)), LeaseView::held);  // seen for the first time: not known to be dead
    // As if this observer had first seen that heartbeat 1001 seconds ago.
    database_.run("UPDATE observations SET seen = seen - 1001");
    EXPECT_EQ(leases.judge(only(leases)), LeaseView::expired);
    // A heartbeat since then is life, however old the wall clock says it is.
    beat_lease(*store_, *lease);
    EXPECT_EQ(leases.judge(only(leases)), LeaseView::held);
    // After a restart of the observer's host the old observation says nothing.
    database_.run("UPDATE observations SET seen = seen - 1001, boot = 'another'");
    EXPECT_EQ(leases.judge(only(leases)), LeaseView::held);
    database_.run("UPDATE observations SET seen = seen + 100000");  // nor does one from the future
    EXPECT_EQ(leases.judge(only(leases)), LeaseView::held);
    database_.run("UPDATE observations SET seen = seen - 1001");
    const auto next = leases.take(0, lease->token, "heir", "encode");
    ASSERT_TRUE(next);
    EXPECT_THROW(beat_lease(*store_, *lease), Error);  // the old holder is fenced
    beat_lease(*store_, *next);
}

TEST_F(LeaseTest, OfManyWhoRaceOneTakesIt) {
    constexpr int kRacers = 16;
    std::atomic<int> winners{0};
    std::latch start(kRacers);
    std::vector<std::thread> threads;
    threads.reserve(kRacers);
    for (int i = 0; i < kRacers; ++i) {
        threads.emplace_back([&, i] {
            Database own(folder_.path() / ("racer-" + std::to_string(i)));
            Leases leases(*store_, own, {});
            start.arrive_and_wait();
            winners += leases.take(0, 0, "racer " + std::to_string(i), "encode") ? 1 : 0;
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(winners, 1);
}

TEST_F(LeaseTest, StateKeepsAttemptsStepsAndHolds) {
    const auto folder = folder_.path() / "state";
    {
        State state(folder);
        Attempt attempt{.name = "a-kaiju1",
                        .model = "a",
                        .kind = "encode",
                        .key = "k",
                        .state = "running",
                        .verdict = {},
                        .step = {},
                        .executor = "local",
                        .handle = {},
                        .folder = {},
                        .weights = 100};
        attempt.id = state.add(attempt);
        EXPECT_THROW((void)state.add(attempt), Error);  // names are unique
        EXPECT_FALSE(state.measured_rate());
        state.set_step(attempt.id, "encode", 4, 0);
        attempt.state = "done";
        state.update(attempt);
        state.hold("b", "why");
        EXPECT_THROW(state.database().transaction([&] {
            state.hold("c", "not to be kept");
            throw Error(ErrorCode::io, "x");
        }),
                     Error);
    }
    State state(folder);
    ASSERT_EQ(state.attempts().size(), 1U);
    EXPECT_EQ(state.attempts_of("a").at(0).state, "done");
    EXPECT_TRUE(state.running().empty());
    EXPECT_EQ(state.steps(1).at("encode"), 4);
    EXPECT_EQ(state.measured_rate(), 25);
    EXPECT_EQ(state.holds(), (std::map<std::string, std::string>{{"b", "why"}}));
    state.unhold("b");
    EXPECT_TRUE(state.holds().empty());
}

// A watcher and a `zoo status` that start in one moment both make the file.
TEST_F(LeaseTest, ANewStateIsOpenedByManyAtOnce) {
    constexpr int kRounds = 40;
    constexpr int kOpeners = 6;
    for (int round = 0; round < kRounds; ++round) {
        const std::filesystem::path folder = folder_.path() / ("new-" + std::to_string(round));
        std::latch start(kOpeners);
        std::atomic<int> failed = 0;
        std::vector<std::jthread> openers;
        openers.reserve(kOpeners);
        for (int i = 0; i < kOpeners; ++i) {
            openers.emplace_back([&, i] {
                start.arrive_and_wait();
                try {
                    State state(folder);
                    state.hold("model-" + std::to_string(i), "why");
                } catch (const Error& error) {
                    ++failed;
                    ADD_FAILURE() << error.what();
                }
            });
        }
        openers.clear();
        ASSERT_EQ(failed, 0);
        EXPECT_EQ(State(folder).holds().size(), static_cast<size_t>(kOpeners));
    }
}

TEST_F(LeaseTest, AFileThatIsNoDatabaseIsNamed) {
    std::filesystem::create_directories(folder_.path() / "bad");
    test::spill(folder_.path() / "bad/state.db", std::string(4096, 'x'));
    try {
        const State state(folder_.path() / "bad");
        ADD_FAILURE();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input);
        EXPECT_NE(std::string(error.what()).find("zoo rebuild"), std::string::npos) << error.what();
    }
}

}  // namespace
}  // namespace kaiju::zoo
