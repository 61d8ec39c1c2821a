"""All campaigns."""

from __future__ import annotations

from tests.services.fault_soak import FAULTS
from tests.sim.engine.soak import ENGINE
from tests.sim.events.soak import EVENTS
from tests.sim.evolve.soak import COLUMNS
from tests.sim.launchers.soak import LAUNCHERS
from tests.sim.merge.soak import SCHEDULES
from tests.sim.mutation.soak import MUTATION
from tests.soak.campaign import Campaign

CAMPAIGNS: dict[str, Campaign] = {
    campaign.name: campaign for campaign in (ENGINE, COLUMNS, MUTATION, SCHEDULES, FAULTS, EVENTS, LAUNCHERS)
}
